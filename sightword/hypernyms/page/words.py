"""The box of the page to type a word into: the nearest hypernyms of some concepts, as data of the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from sightword.compute import devices
from sightword.hypernyms.data.pairs import ConceptPairs
from sightword.hypernyms.data.taxonomy import Taxonomy
from sightword.hypernyms.training.concepts import Concepts
from sightword.report import html_page as html
from sightword.report.tables import Row, Table

MOST, TOP = 500, 5
"""The most concepts in a page, and the hypernyms of each."""
_COLUMNS = ("hypernym", "energy", "accepted", "in the taxonomy")
_INTRO = (
    "The {} nearest hypernyms by the embedding, for {} concepts that have a true pair in this split. A hypernym is "
    "accepted up to the energy {}, which was chosen on dev."
)
_ANY = 'Any of all {} concepts: <code class="command">sightword hypernyms {}</code>'
_HERE = resources.files(__package__)
SCRIPT, STYLE = (_HERE.joinpath(f"words.{kind}").read_text("utf-8") for kind in ("js", "css"))
"""What the page has for the box beside the script and the style of all pages."""


class Known(NamedTuple):
    """A concept with its nearest hypernyms."""

    name: str
    words: str
    """Separated by a comma and a space."""
    above: list[tuple[str, float, bool]]
    """The hypernym, the energy, and whether the hypernym is one in the taxonomy; the nearest first."""


class Words(NamedTuple):
    """The concepts of the box."""

    known: list[Known]
    threshold: float
    concepts: int
    """The number of all concepts."""


@devices.threads(1)  # as for all energies: threads change the last bits
def look_up(concepts: Concepts, taxonomy: Taxonomy, pairs: ConceptPairs, most: int = MOST) -> Words:
    """Return the nearest hypernyms of hyponyms of true pairs, evenly drawn in the order of the concepts."""
    ids = np.unique(pairs.hyponyms[pairs.labels])
    chosen = ids[np.unique(np.linspace(0, len(ids) - 1, min(most, len(ids))).astype(int))]
    place_of, parents = taxonomy.id_of(), taxonomy.parents
    known = []
    for own in chosen.tolist():
        name, true = taxonomy.names[own], _above(parents, own)
        found = concepts.hypernyms(name, TOP)
        known.append(Known(name, taxonomy.words[own], [(one, energy, place_of[one] in true) for one, energy in found]))
    return Words(known, concepts.threshold, len(taxonomy.names))


def section(words: Words) -> html.Section | None:
    """Return the section of the page, which without a script has one concept and the command; None without any."""
    if not words.known:
        return None
    shown = words.known[len(words.known) // 2]
    rows = [[one.name, one.words, [_cells(*above, words.threshold) for above in one.above]] for one in words.known]
    data = json.dumps(rows, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    caption = f"{shown.name} ({shown.words})"
    table = Table(caption, _COLUMNS, [Row(name, cells) for name, *cells in rows[len(rows) // 2][2]], style="narrow")
    box = Markup('<div class="lookup"><script type="application/json">{}</script><div class="found">{}</div></div>')
    intro = html.text(_INTRO, TOP, f"{len(rows):,}", f"{words.threshold:.3f}")
    command = html.text(_ANY, f"{words.concepts:,}", shown.name)
    parts = [intro, box.format(Markup(data), html.table(table)), command]  # noqa: S704 - no < in it
    return html.Section("words", "Look a word up", parts, "Words")


def _cells(name: str, energy: float, right: bool, threshold: float) -> list[str]:
    return [name, f"{energy:.3f}", *("yes" if one else "no" for one in (energy <= threshold, right))]


def _above(parents: Sequence[Sequence[int]], own: int) -> set[int]:
    """Return all hypernyms of a concept."""
    level, found = {own}, set[int]()
    while level:
        level = {up for place in level for up in parents[place]} - found
        found |= level
    return found
