"""How the documentation is built: `make docs`, warnings are errors."""

from __future__ import annotations

import json
import re
from typing import Any

from sightword import __version__

project = "Sightword"
author = "The Sightword authors"
copyright = "The Sightword authors"  # noqa: A001 - Sphinx's own name
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_title = f"Sightword {version}"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

_UP = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)#]+)(?:#[^)]*)?\)")


def _read_notebook(app: Any, page: str, source: list[str]) -> None:
    """Make the cells of a notebook a page, with the outputs that stand in the notebook."""
    if app.env.doc2path(page).suffix != ".ipynb":
        return
    parts = []
    for cell in json.loads(source[0])["cells"]:
        text = "".join(cell["source"])
        parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
        parts += [f"```text\n{''.join(output['text'])}```" for output in cell.get("outputs", ())]
    source[0] = "\n\n".join(parts)


def _name_files_outside(_app: Any, page: str, source: list[str]) -> None:
    """A link to a file that is in the repository and not among these pages becomes its name, once a page."""
    told: set[str] = set()

    def named(link: re.Match[str]) -> str:
        if link[2].count("/") <= page.count("/"):
            return link[0]
        if link[3] in told:
            return link[1]
        told.add(link[3])
        return f"`{link[3]}`" if link[1] == link[3] else f"{link[1]} (`{link[3]}`)"

    source[0] = _UP.sub(named, source[0])


def _keep_colons(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Stop Napoleon from taking the words before a colon, in an attribute's first line, for its type."""
    if what in ("attribute", "data", "property") and lines and ":" in lines[0]:
        lines.insert(0, "")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _keep_colons, priority=400)
    app.connect("source-read", _read_notebook, priority=400)
    app.connect("source-read", _name_files_outside)
