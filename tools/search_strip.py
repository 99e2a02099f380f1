"""Draws docs/images/search.png and search-languages.png: what the packaged encoders find among the photographs of
docs/images/photographs.

`python -m tools.search_strip` in the repository's folder searches as `sightword search flickr8k --collection` does, and
writes the files. The queries below are all that is chosen; the pictures and their scores are the encoder's answers.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont, ImageOps

from sightword.io.files import atomic_file
from sightword.search.opening import open_search
from sightword.search.searcher import PictureHit

IMAGES = Path("docs/images")
PHOTOGRAPHS = IMAGES / "photographs"
QUERIES = {
    "flickr8k": ("a cup of coffee on a table", "a photgrapher wiht a tripod", "a bridge at night"),
    "multi30k": ("a cup of coffee on a table", "eine Tasse Kaffee auf einem Tisch", "eine Brücke bei Nacht"),
}
"""By encoder; the second of ``flickr8k`` has typing errors."""
STRIPS = {"flickr8k": IMAGES / "search.png", "multi30k": IMAGES / "search-languages.png"}
BEST = 3
"""Pictures a query."""
WIDTH, GAP, MARGIN = 1280, 8, 16
PAPER, FIELD, LINE, INK, SOFT, BLUE = "#ffffff", "#f1f3f6", "#c9d0d8", "#1b1f24", "#59616b", "#0067a3"


class Answer(NamedTuple):
    """A query and the pictures that the query finds, best first."""

    query: str
    hits: list[PictureHit]


def answers(encoder: str, queries: Sequence[str], weights: Path | None = None) -> list[Answer]:
    """Search the photographs."""
    searcher = open_search(encoder, PHOTOGRAPHS, weights=weights)
    return [Answer(query, searcher.pictures(query, BEST).hits) for query in queries]


def draw(found: list[Answer]) -> Image.Image:
    """Draw a field with each query, its pictures side by side, and the scores below, from 0 to 1 as lengths."""
    block = (WIDTH - 2 * MARGIN * len(found)) // len(found)
    side = (block - (BEST - 1) * GAP) // BEST
    top = MARGIN + 38 + GAP
    strip = Image.new("RGB", (WIDTH, top + side + 34 + MARGIN), PAPER)
    pen = ImageDraw.Draw(strip)
    for column, answer in enumerate(found):
        left = MARGIN + column * (block + 2 * MARGIN)
        box = (left, MARGIN, left + block, MARGIN + 38)
        pen.rounded_rectangle(box, radius=9, fill=FIELD, outline=LINE)
        pen.text((left + 12, MARGIN + 19), answer.query, fill=INK, font=_font(16), anchor="lm")
        for place, hit in enumerate(answer.hits):
            corner = left + place * (side + GAP)
            with Image.open(PHOTOGRAPHS / hit.picture) as picture:
                strip.paste(ImageOps.fit(picture.convert("RGB"), (side, side), Image.Resampling.LANCZOS), (corner, top))
            pen.text((corner, top + side + 6), f"{hit.score:.2f}", fill=INK if place == 0 else SOFT, font=_font(14))
            pen.rectangle((corner, top + side + 28, corner + side - 1, top + side + 31), fill=LINE)
            pen.rectangle((corner, top + side + 28, corner + round((side - 1) * hit.share), top + side + 31), fill=BLUE)
    return strip


def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(Path(get_data_path()) / "fonts/ttf/DejaVuSans.ttf", size)


def main() -> None:
    """Write the strips, with a palette, which keeps the files small."""
    for encoder, strip in STRIPS.items():
        data = io.BytesIO()
        drawn = draw(answers(encoder, QUERIES[encoder]))
        drawn.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(data, "PNG", optimize=True)
        with atomic_file(strip) as temporary:
            temporary.write_bytes(data.getvalue())


if __name__ == "__main__":
    main()
