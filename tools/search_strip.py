"""Draws docs/images/search.svg and search-languages.svg: sentences are typed, and photographs change places.

`python -m tools.search_strip` searches docs/images/photographs as `sightword search flickr8k --collection` does, after
each word of docs/images/sentences.csv. These were written before the first answer, and none may be replaced.
"""

from __future__ import annotations

import base64
import csv
import io
from html import escape
from itertools import pairwise
from pathlib import Path

from PIL import Image, ImageOps

from sightword.io.files import write_text
from sightword.search.opening import open_search
from sightword.search.searcher import Searcher

IMAGES = Path(__file__).parents[1] / "docs/images"
PHOTOGRAPHS = IMAGES / "photographs"
STRIPS = {"flickr8k": IMAGES / "search.svg", "multi30k": IMAGES / "search-languages.svg"}
with (IMAGES / "sentences.csv").open(encoding="utf-8", newline="") as file:
    _ROWS = list(csv.DictReader(file))
SENTENCES = {encoder: {row[encoder]: row["picture"] for row in _ROWS} for encoder in STRIPS}
"""By encoder; each sentence has a typing error."""
LETTER, MOVE, SLOT = 0.085, 0.35, 5.0
"""Seconds for a letter, for a move of the photographs, and for a sentence with the pause behind it."""
WIDTH, HEIGHT, MARGIN, GAP = 1280, 518, 24, 12
TILE, SMALL, ADVANCE = (299, 224), 0.554, 20.4
"""The four best photographs, the scale of the others, and the width of a letter."""
STYLE = """
svg { --paper: #fff; --field: #f1f3f6; --line: #c9d0d8; --ink: #1b1f24; --soft: #59616b; --blue: #0067a3 }
@media (prefers-color-scheme: dark) {
  svg { --paper: #15181c; --field: #22272e; --line: #444c56; --ink: #e6e9ed; --soft: #a3acb6; --blue: #5cb3e6 }
}
text { font: 26px system-ui, sans-serif; fill: var(--soft) }
.typed { font: 34px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: var(--ink); white-space: pre }
.right { fill: none; stroke: var(--blue); stroke-width: 10 }
.cover { display: none }
@media (prefers-reduced-motion: no-preference) { .cover { display: inline } """
HIDDEN, SHOWN = "opacity: 0", "opacity: 1"
COVER = '<path d="M44 24h1300v56h-1300" fill="var(--field)"/><path d="M44 34v36" stroke="var(--ink)" stroke-width="3"/>'
"""Hides the letters that are not typed yet, behind the cursor."""
Steps = list[tuple[float, str]]
"""Seconds from the start, and the CSS from then on."""


def ranks(searcher: Searcher, query: str) -> dict[str, int]:
    """Return the place of each photograph among the answers, from 0."""
    return {hit.picture: place for place, hit in enumerate(searcher.pictures(query, 11).hits)}


def tally(searcher: Searcher, sentences: dict[str, str]) -> str:
    """Return the line below the photographs."""
    first = sum(ranks(searcher, sentence)[right] == 0 for sentence, right in sentences.items())
    return f"{len(sentences)} misspelt sentences, one for each photograph: {first} find theirs first."


def draw(searcher: Searcher, sentences: dict[str, str]) -> str:
    """Draw the strip; a reader who asked for less motion sees the first sentence and its answer."""
    found = [
        (number * SLOT + place * LETTER, ranks(searcher, sentence[:place]))
        for number, sentence in enumerate(sentences)
        for place, after in pairwise([*_spaces(sentence), 99])
        if place > 3 and (after - place) * LETTER > MOVE
    ]
    whole, rules, texts, photos = SLOT * len(sentences), "", "", ""
    for number, (sentence, right) in enumerate(sentences.items()):
        start, letters, to = number * SLOT, len(sentence), (number + 1) * SLOT
        rank = ranks(searcher, sentence)[right] + 1
        typed = [
            (start + count * LETTER, f"transform: translateX({count * ADVANCE:.1f}px)") for count in range(letters + 1)
        ]
        rules += _rule(f"s{number}", [(0, HIDDEN), (start, SHOWN), (to, HIDDEN)], whole) + _rule(
            f"c{number}", typed, whole
        )
        answered: Steps = [(0, HIDDEN), (start + letters * LETTER + MOVE, SHOWN), (to, HIDDEN)]
        rules += _rule(f"v{number}", answered, whole) + _rule(f"r-{right[:-4]}", answered, whole)
        texts += (
            f'<g id="s{number}" opacity="{int(number == 0)}"><text class="typed" x="44" y="64" '
            f'textLength="{letters * ADVANCE:.1f}">{escape(sentence)}</text><g id="c{number}" class="cover">{COVER}</g>'
            f'<text id="v{number}" x="1236" y="62" text-anchor="end">'
            f"{'first' if rank == 1 else f'number {rank}'} of {len(sentences)}</text></g>"
        )
    still = ranks(searcher, next(iter(sentences)))
    for picture in sorted(still):
        name, before = picture[:-4], _place(found[-1][1][picture])
        moves: Steps = [(0, before)]
        for second, places in found:
            if (after := _place(places[picture])) != before:
                moves += [(second, before), (second + MOVE, after)]
                before = after
        rules += _rule(f"p-{name}", moves, whole, "ease-in-out")
        photos += (
            f'<g id="p-{name}" style="{_place(still[picture])}"><image width="{TILE[0]}" height="{TILE[1]}" '
            f'href="data:image/jpeg;base64,{_jpeg(picture)}"/><rect id="r-{name}" class="right" x="5" y="5" '
            f'width="289" height="214" opacity="{int(still[picture] == 0)}"/></g>'
        )
    field = f'x="{MARGIN}" y="20" width="{WIDTH - 2 * MARGIN}" height="64" rx="14"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
        f"<style>{STYLE}{rules}}}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="16" fill="var(--paper)"/>',
        f'<svg width="{WIDTH - MARGIN}"><rect {field} fill="var(--field)"/>{texts}</svg>',
        f'<rect {field} fill="none" stroke="var(--line)" stroke-width="2"/>{photos}',
        f'<text x="{MARGIN}" y="{HEIGHT - 22}">{tally(searcher, sentences)}</text></svg>\n',
    ])  # fmt: skip


def _spaces(sentence: str) -> list[int]:
    return [place for place, letter in enumerate(f"{sentence} ") if letter == " "]


def _rule(name: str, steps: Steps, whole: float, easing: str = "step-end") -> str:
    """Return the animation of the element of a name."""
    frames = "".join(f"{100 * second / whole:.3f}%{{{css}}}" for second, css in steps)
    return f"@keyframes {name} {{{frames}}} #{name} {{animation: {name} {whole}s {easing} infinite}}\n"


def _place(rank: int) -> str:
    """Return the position of a photograph: four large ones, and the others small below."""
    large, side = rank < 4, TILE[0] + GAP if rank < 4 else TILE[0] * SMALL + GAP
    left, top = MARGIN + side * (rank if large else rank - 4), 100 if large else 100 + TILE[1] + GAP
    return f"transform: translate({left:.1f}px, {top}px) scale({1 if large else SMALL})"


def _jpeg(picture: str) -> str:
    data = io.BytesIO()
    with Image.open(PHOTOGRAPHS / picture) as image:
        ImageOps.fit(image.convert("RGB"), TILE, Image.Resampling.LANCZOS, centering=(0.5, 0.3)).save(
            data, "JPEG", quality=82, optimize=True
        )
    return base64.b64encode(data.getvalue()).decode()


def main() -> None:
    """Write the strips of both encoders."""
    for encoder, strip in STRIPS.items():
        write_text(strip, draw(open_search(encoder, PHOTOGRAPHS), SENTENCES[encoder]))


if __name__ == "__main__":
    main()
