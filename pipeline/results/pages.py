"""The pages with tables of results: each table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pipeline.results.layout import FILE, Layout, load, shown
from pipeline.results.records import FOLDER, Row, rows
from pipeline.results.tables import markdown
from sightword.errors import ParamsError
from sightword.io.files import read_text, write_text

_MARKED = re.compile(r"^<!-- table: ([\w.-]+) -->\n(.*?)^<!-- end -->", re.DOTALL | re.MULTILINE)
_BEGIN = re.compile(r"^<!-- table:.*", re.MULTILINE)
_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*\|[\s|:-]*$", re.MULTILINE)
"""The line below the head of a table in Markdown."""
SCORES = ("docs/results.md", "docs/results/*.md", "docs/what-pictures-add.md")
"""The pages on which no table stands outside of markers."""


def write(project: Path) -> list[Path]:
    """Fill the tables of all pages anew, and return the pages that changed.

    Raises:
        ParamsError: a page names no table, or a table no row; nothing is written.
        FileFormatError: a row or the layout of the tables cannot be read.
    """
    new = _filled(project)
    changed = [path for path, text in new.items() if read_text(path) != text]
    for path in changed:
        write_text(path, new[path])
    return changed


def faults(project: Path) -> list[str]:
    """Return a line for each fault: a table is not of the rows, in no marker, or on no page; no table shows a row.

    Errors are those of :func:`write`.
    """
    new, layout, every = _filled(project), load(project), rows(project)
    found = [
        f"{_name(path, project)}: tables differ from the rows" for path, text in new.items() if read_text(path) != text
    ]
    for pattern in SCORES:
        for path in sorted(project.glob(pattern)):
            loose = _RULE.search(_MARKED.sub("", read_text(path)))
            found += [f"{_name(path, project)}: a table stands outside of markers"] if loose else []
    on_pages = {name for text in new.values() for name, _ in _MARKED.findall(text)}
    found += [f"{FILE}: no page shows the table {name}" for name in layout.tables if name not in on_pages]
    seen = {key for table in layout.tables.values() for key in shown(table, layout)}
    found += [f"{FOLDER}/{key}.json: no table shows the row" for key in every if key not in seen]
    return found


def fill(text: str, layout: Layout, every: Mapping[str, Row], *, where: object) -> str:
    """Return a page with its tables made anew; ParamsError, which names ``where``, for a marker without an end."""
    begun, whole = len(_BEGIN.findall(text)), len(_MARKED.findall(text))
    if begun != whole or any("<!-- table:" in inner for _, inner in _MARKED.findall(text)):
        todo = "Write `<!-- table: NAME -->`, alone on its line, and `<!-- end -->` below the table."
        raise ParamsError("a marker of a table has no end, or no name", where=where, todo=todo)

    def one(found: re.Match[str]) -> str:
        return f"<!-- table: {found[1]} -->\n\n{markdown(found[1], layout, every)}\n\n<!-- end -->"

    return _MARKED.sub(one, text)


def _filled(project: Path) -> dict[Path, str]:
    layout, every = load(project), rows(project)
    paths = [project / "README.md", *sorted((project / "docs").rglob("*.md"))]
    texts = {path: read_text(path) for path in paths if path.is_file()}
    marked = {path: text for path, text in texts.items() if _BEGIN.search(text)}
    return {path: fill(text, layout, every, where=path) for path, text in marked.items()}


def _name(path: Path, project: Path) -> str:
    return path.relative_to(project).as_posix()
