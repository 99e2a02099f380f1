"""The pages of results: their tables are filled from the rows, and the numbers in their text checked.

A score in the text, which is a number with a decimal point from :data:`LEAST` on, stands in a table of its section, or
of a section or page that a link of the paragraph names, or with a source in ``pages/prose.yaml``. Smaller numbers are
mostly differences and half-widths, and most of these stand somewhere in a table by chance.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from sightword.errors import FileFormatError, ParamsError
from sightword.io import yaml_reader
from sightword.io.files import read_text, write_text
from sightword.messages import quote
from study.rows import Row, read_rows
from study.tables import FILE, load, markdown, pooled, shown

LIST = "study/pages/prose.yaml"
LEAST = 10.0
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*\.\d+(?!\w|[.,]\d)")
_LINK = re.compile(r"\]\(([^)\s]*)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_SCORE = re.compile(r"([\w.-]+/[\w.-]+) (\S+)")
"""A source that is checked: a row, and the name of a score."""
_MARKED = re.compile(r"^<!-- table: ([\w.-]+) -->\n(.*?)^<!-- end -->", re.DOTALL | re.MULTILINE)
_BEGIN = re.compile(r"^<!-- table:.*", re.MULTILINE)
_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*\|[\s|:-]*$", re.MULTILINE)
"""The line below the head of a table in Markdown."""
PAGES = ("README.md", "docs/*.md", "study/pages/*.md")
SCORES = (
    "docs/results.md",
    "study/pages/*.md",
    *(f"docs/{name}.md" for name in ("entailment", "grounded", "hypernyms", "languages")),
)
"""The pages on which no table stands outside of markers; where a page has a heading *Results*, below this heading."""


def fill(project: Path) -> list[Path]:
    """Fill the tables of all pages anew, and return the pages that changed."""
    new, broken = _filled(project)
    if broken:
        raise ParamsError("\n  ".join([f"{len(broken)} of the tables cannot be made:", *broken]), where=project / FILE)
    changed = [path for path, text in new.items() if read_text(path) != text]
    for path in changed:
        write_text(path, new[path])
    return changed


def table_faults(project: Path) -> list[str]:
    """Return a line for each fault: a table is not of the rows, in no marker, or on no page; no table shows a row."""
    (new, found), layout, every = _filled(project), load(project), read_rows(project)
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
    found += [f"{key}: no table shows the row" for key in every if key not in seen]
    return found


def _filled(project: Path) -> tuple[dict[Path, str], list[str]]:
    """Return the pages with their tables made anew, and a line for each table that cannot be made and stays."""
    layout, every, broken = load(project), read_rows(project), []
    new = {}
    for path in [path for pattern in PAGES for path in sorted(project.glob(pattern))]:
        text = read_text(path)
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


class Paragraph(NamedTuple):
    """A paragraph or an item of a list, its first line, and the anchor of the heading above."""

    line: int
    section: str
    text: str


def prose_faults(project: Path, rows: Mapping[str, Row]) -> list[str]:
    """Return a line for each number without a table or a source, of another value, or listed in vain."""
    paths = [path for pattern in ("README.md", *SCORES) for path in sorted(project.glob(pattern))]
    parts = {path.relative_to(project).as_posix(): _parts(read_text(path)) for path in paths}
    tables, listed = {name: tables for name, (tables, _) in parts.items()}, _listed(project)
    found = [f"{LIST}: {quote(name)} is no page of results" for name in listed if name not in parts]
    for name, (_, paragraphs) in parts.items():
        sources = {number: source for source, numbers in listed.get(name, {}).items() for number in numbers.split()}
        seen: set[str] = set()
        for paragraph in paragraphs:
            text, known = _LINK.sub("]", paragraph.text), _known(name, paragraph, tables) | sources.keys()
            scores = [one for one in _NUMBER.finditer(text) if float(one[0].replace(",", "")) >= LEAST]
            seen |= {one[0] for one in scores}
            found += [
                f"{name}:{paragraph.line + text[: one.start()].count(chr(10))}: {one[0]} is in no table of its section "
                f"or of one that the paragraph links: mend it, or list it with its source in {LIST}"
                for one in scores
                if one[0] not in known
            ]
        found += [f"{LIST}: {name} has no {number} in its text" for number in sources if number not in seen]
        found += [fault for number, source in sources.items() for fault in _other(name, number, source, rows)]
    return found


def _other(page: str, number: str, source: str, rows: Mapping[str, Row]) -> list[str]:
    """Return a line if a number is not the score that its source names, as it is or in percent."""
    named = _SCORE.fullmatch(source)
    score = pooled(rows[named[1]], named[2]) if named and named[1] in rows else None
    values = [f"{factor * score.value:,.{len(number.partition('.')[2])}f}" for factor in (1, 100)] if score else []
    has = f"is {' or '.join(values)}" if values else "is in no row"
    return [f"{LIST}: {page}: {number}: {source} {has}"] if named and number not in values else []


def _known(page: str, paragraph: Paragraph, tables: Mapping[str, Mapping[str, set[str]]]) -> set[str]:
    """Return the numbers in the tables of a paragraph's section, and of the sections and pages that it links."""
    known = {*tables[page].get(paragraph.section, ())}
    for target in _LINK.findall(paragraph.text):
        name, _, anchor = target.partition("#")
        linked = tables.get(posixpath.normpath(posixpath.join(posixpath.dirname(page), name)) if name else page, {})
        known = known.union(linked.get(anchor, ())) if anchor else known.union(*linked.values())
    return known


def _parts(text: str) -> tuple[dict[str, set[str]], list[Paragraph]]:
    """Return the numbers in a page's tables by section, and its paragraphs outside of marked tables."""
    tables: dict[str, set[str]] = {}
    paragraphs: list[Paragraph] = []
    section, marked, begun = "", False, False
    for line, content in enumerate(_CODE.sub(lambda code: re.sub(r"[^\n]", "", code[0]), text).splitlines(), 1):
        marked = content.startswith("<!-- table:") or (marked and not content.startswith("<!-- end"))
        inside = begun and not re.match(r"\s*([-*]|\d+\.) ", content)
        begun = False
        if content.startswith("#"):
            section = re.sub(r"[^\w -]", "", content.lstrip("# ").lower()).replace(" ", "-")
        elif content.startswith("|"):
            cells = content.split("|")[2:]
            tables.setdefault(section, set()).update(one for cell in cells for one in _NUMBER.findall(cell))
        elif content.strip() and not marked:
            begun = True
            if inside:
                paragraphs[-1] = paragraphs[-1]._replace(text=f"{paragraphs[-1].text}\n{content}")
            else:
                paragraphs.append(Paragraph(line, section, content))
    return tables, paragraphs


def _listed(project: Path) -> dict[str, dict[str, str]]:
    """Return by page and source the numbers with this source, separated by spaces."""
    path = project / LIST
    try:
        listed = yaml_reader.parse(read_text(path), path) if path.exists() else None
        return TypeAdapter(dict[str, dict[str, str]]).validate_python(listed or {})
    except ValidationError:
        raise FileFormatError("is no list of numbers", where=path, expected='PAGE: {SOURCE: "NUMBER NUMBER"}') from None
