"""HTML pages: one file that needs no network, no other file, and no script for reading.

A page is a list of sections; the functions of this module make their parts.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

import jinja2
from markupsafe import Markup

from sightword.report.departures import Departure
from sightword.report.tables import Cell, Row, Table

if TYPE_CHECKING:
    from sightword.report.drawing import Drawing

_HERE = "sightword.report"
Parts = list[Markup | None]
"""Parts of a page; None is left out."""
_MACROS = f"{_HERE}/macros.html"


class Note(NamedTuple):
    """A warning or another fact; ``serious`` if it makes the numbers incomparable with published ones."""

    head: str
    text: str
    serious: bool = False


class Headline(NamedTuple):
    """A number that sums up a run, its meaning, its context, and maybe a mark."""

    value: str
    what: str
    beside: str
    mark: Markup = Markup("")


class Section(NamedTuple):
    """A section of a page, with a link in the menu."""

    key: str
    """The target of links."""
    head: str
    parts: Sequence[Markup | None]
    """None is left out."""
    menu: str = ""
    """The text of the link, if it is not the head."""


_MADE = (
    '{} from the published ones. <code class="command">sightword audit --full {}</code> '
    "shows all parameters, with data, code and time; <code>scorings.csv"
    "</code> calls the model {}."
)
DEMONSTRATED = Note(
    "random weights: for demonstration",
    "The image network was never trained, so its features are arbitrary though fixed. "
    "The run shows that every part works; its numbers are no evidence about the method.",
    serious=True,
)


def render(
    title: str,
    sections: Sequence[Section | None],
    *,
    top: Markup,
    footer: Markup,
    head: str = "",
    lead: Markup | None = None,
    notes: Sequence[Note] = (),
    headlines: Sequence[Headline] = (),
) -> str:
    """Return the text of a page.

    ``lead`` stands before the sections, ``top`` below the head, ``footer`` last; ``notes`` are read first. The policy
    allows one script: ``page.js``, which sorts tables and copies commands. TypeError for a value that is no text.
    """
    script = _read(_HERE, "page.js")
    values = {"title": title, "head": head or title, "top": top, "lead": lead or "", "footer": footer}
    return _environment().get_template(f"{_HERE}/frame.html").render(
        **values,
        sections=[one for one in sections if one],
        notes=notes,
        headlines=headlines,
        style=Markup(_read(_HERE, "page.css")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
    )  # fmt: skip


def text(words: str, *values: object, style: str = "") -> Markup:
    """Return a paragraph; ``words`` are markup, in which the escaped values stand for ``{}``."""
    return part("paragraph", markup(words, *values), style)


def heading(words: str, *values: object) -> Markup:
    """Return a head within a section, as :func:`text`."""
    return Markup("<h3>{}</h3>").format(markup(words, *values))


def markup(words: str, *values: object) -> Markup:
    """Return markup in which the escaped values stand for ``{}``; TypeError if a value is no text for readers."""
    return Markup(words).format(*map(_readable, values))  # noqa: S704 - our own words


def lines(items: Sequence[str], style: str = "") -> Markup:
    """Return a list."""
    return part("lines", items, style)


def table(content: Table) -> Markup:
    """Return a table, which scrolls in a narrow window."""
    return part("table", content)


def chips(*facts: str) -> Markup:
    """Return short facts in a row; an empty one is left out."""
    return part("chips", [one for one in facts if one])


def figure(drawing: Drawing | None, caption: str = "") -> Markup | None:
    """Return a drawing, maybe with a caption above; None without a drawing."""
    return None if drawing is None else part("figure", Markup(drawing.in_page()), caption)  # noqa: S704 - matplotlib escapes


def beside(*parts: Markup | None, style: str = "") -> Markup | None:
    """Return parts side by side, in a narrow window one below the other; None without parts."""
    return part("block", known, f"pair {style}".strip()) if (known := _known(parts)) else None


def block(*parts: Markup | None, style: str = "") -> Markup:
    """Return parts together, as one among those that stand side by side."""
    return part("block", _known(parts), style)


def fold(summary: str, *parts: Markup | None, opened: bool = False, style: str = "fold") -> Markup:
    """Return parts that a click on the summary shows."""
    return part("fold", summary, _known(parts), opened, style)


def source(*commands: str) -> Markup | None:
    """Return the commands that show the history of a table; None without any."""
    return part("source", commands) if commands else None


def made(departed: Sequence[Departure], page: str, model: str) -> Section:
    """Return the section with the parameters that are not the published ones.

    ``page`` is the page's path; ``model`` is the hash of what the page is about, as in the ledger of scorings.
    """
    rows = [Row(one.name, [_told(cell) for cell in one.cells()]) for one in departed]
    half = max(-(-len(rows) // 2), 2)
    columns = ("parameter", _told("value"), _told("published"))
    parts = [Table("", columns, part, style="listed") for part in (rows[:half], rows[half:]) if part]
    words = "These parameters differ" if rows else "No parameter differs"
    return Section("made", "Made by", [text(_MADE, words, page, model[:8]), beside(*map(table, parts))])


def _told(cell: str) -> Cell:
    return Cell(cell, style="prose")


def beside_prose(prose: Sequence[Markup | None], *parts: Markup | None) -> Markup | None:
    """Return parts with the words about them at their left."""
    return beside(block(*prose), block(*parts), style="told")


def sparks(drawings: Iterable[Drawing]) -> list[Headline]:
    """Return a tile with a line for each drawing of a curve."""
    tiles = []
    for drawing in drawings:
        if drawing.curve:
            what, values = drawing.curve
            first, last = (f"{one:,.0f}" if abs(one) >= 1000 else f"{one:.3g}" for one in (values[0], values[-1]))
            tiles.append(Headline(last, what, f"{first} at first", drawing.spark()))
    return tiles


def scorings(counts: str) -> Markup | None:
    """Return how many encoders a test part was scored with, given in words; None without any."""
    return text("Scored so far: {}.", counts) if counts else None


def made_by(stage: str) -> Markup:
    """Return the footer of the page that a stage writes."""
    return part("made_by", stage)


def part(name: str, *values: object, template: str = _MACROS) -> Markup:
    """Return what the macro ``name`` of a template, ``package/file``, makes of values."""
    macro = getattr(_environment().get_template(template).module, name)
    return Markup(macro(*values))  # noqa: S704 - escaped by the template


def _known(parts: Sequence[Markup | None]) -> list[Markup]:
    return [one for one in parts if one]


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read(*name.rsplit("/", 1))),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_readable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _readable(value: object) -> object:
    """Return a value that a template shows; TypeError for one that is no text for readers, such as a macro or None."""
    if not isinstance(value, str | int | float | jinja2.Undefined) or value != value:
        raise TypeError(f"a page shows texts and numbers, not {value!r:.80}")
    return value


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text("utf-8")
