"""The pages with tables of results: each table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.

A page explains a mark below the first table that has it.
"""

from __future__ import annotations

import re
from pathlib import Path

from pipeline.results.layout import FILE, load, shown
from pipeline.results.records import FOLDER, rows
from pipeline.results.tables import markdown
from sightword.errors import ParamsError
from sightword.io.files import read_text, write_text

_MARKED = re.compile(r"^<!-- table: ([\w.-]+) -->\n(.*?)^<!-- end -->", re.DOTALL | re.MULTILINE)
_BEGIN = re.compile(r"^<!-- table:.*", re.MULTILINE)
_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*\|[\s|:-]*$", re.MULTILINE)
"""The line below the head of a table in Markdown."""
SCORES = (
    "docs/results.md",
    "docs/results/*.md",
    "docs/what-pictures-add.md",
    *(f"docs/{name}.md" for name in ("entailment", "grounded", "hypernyms", "languages")),
)
"""The pages on which no table stands outside of markers; where a page has a heading *Results*, below this heading."""


def write(project: Path) -> list[Path]:
    """Fill the tables of all pages anew, and return the pages that changed.

    Raises:
        ParamsError: pages name tables that do not exist, or tables such rows, each with a line; nothing is written.
        FileFormatError: a row or the layout of the tables cannot be read.
    """
    new, broken = _filled(project)
    if broken:
        raise ParamsError("\n  ".join([f"{len(broken)} of the tables cannot be made:", *broken]), where=project / FILE)
    changed = [path for path, text in new.items() if read_text(path) != text]
    for path in changed:
        write_text(path, new[path])
    return changed


def faults(project: Path) -> list[str]:
    """Return a line for each fault: a table is not of the rows, in no marker, or on no page; no table shows a row.

    Raises:
        FileFormatError: a row or the layout of the tables cannot be read.
    """
    (new, found), layout, every = _filled(project), load(project), rows(project)
    found += [
        f"{_name(path, project)}: tables differ from the rows" for path, text in new.items() if read_text(path) != text
    ]
    for pattern in SCORES:
        for path in sorted(project.glob(pattern)):
            loose = _RULE.search(_MARKED.sub("", read_text(path).rpartition("\n## Results\n")[2]))
            found += [f"{_name(path, project)}: a table stands outside of markers"] if loose else []
    on_pages = {name for text in new.values() for name, _ in _MARKED.findall(text)}
    found += [f"{FILE}: no page shows the table {name}" for name in layout.tables if name not in on_pages]
    seen = {key for table in layout.tables.values() for key in shown(table, layout)}
    found += [f"{FOLDER}/{key}.json: no table shows the row" for key in every if key not in seen]
    return found


def _filled(project: Path) -> tuple[dict[Path, str], list[str]]:
    """Return the pages with their tables made anew, and a line for each table that cannot be made and stays."""
    layout, every, broken = load(project), rows(project), []
    new = {}
    for path in [project / "README.md", *sorted((project / "docs").rglob("*.md"))]:
        text = read_text(path) if path.is_file() else ""
        marked = _MARKED.findall(text)
        if len(_BEGIN.findall(text)) != len(marked) or any("<!-- table:" in inner for _, inner in marked):
            broken.append(f"{_name(path, project)}: a marker of a table has no end, or no name")
            marked = []
        told: set[str] = set()
        for name, inner in marked:
            try:
                table = f"\n{_once(markdown(name, layout, every), told)}\n\n"
            except ParamsError as error:
                broken.append(f"{_name(path, project)}: {error}")
                table = inner
            text = text.replace(f"<!-- table: {name} -->\n{inner}", f"<!-- table: {name} -->\n{table}")
        if marked:
            new[path] = text
    return new, broken


def _once(table: str, told: set[str]) -> str:
    """Return a table without explanations of †, ‡ and § that the page has above, and add its own to those."""
    parts = [part for part in table.split("\n\n") if part not in told]
    told |= {part for part in parts if part.startswith(("†", "‡", "§"))}
    return "\n\n".join(parts)


def _name(path: Path, project: Path) -> str:
    return path.relative_to(project).as_posix()
