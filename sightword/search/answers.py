"""Answers for people: captions without the spaces of a tokeniser, and tables as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from sightword.search.catalogue import Caption, Catalogue

PICTURES = ("query", "rank", "picture", "score", "split", "captions")
"""Columns of a table of pictures."""
CAPTIONS = ("picture", "rank", "caption", "score", "own")
"""Columns of a table of captions; ``own`` is 1 for a caption of the picture, else 0."""
BETWEEN = " | "
"""Separates the captions of a picture in a cell."""
_BEFORE = re.compile(r"[ \t]+(?=[.,;:!?](?:\s|$)|n't\b|'(?:s|m|d|re|ve|ll)\b)")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_SUM = "This encoder was not trained for an order: the sum of the embeddings, at length 1, stands for the maximum."

Cell = str | int | float


def shown(text: str) -> str:
    """Return a caption for reading, without white space before a full stop and the like."""
    return _BEFORE.sub("", text)


def picture_rows(
    query: str, hits: Iterable[tuple[str, float]], catalogue: Catalogue, language: str | None = None
) -> list[tuple[Cell, ...]]:
    """Return the rows of pictures, given by id and score, best first, that a query found; captions in one language,
    unless None.
    """
    return [
        (
            query,
            rank,
            picture,
            score,
            catalogue.splits.get(picture, ""),
            BETWEEN.join(catalogue.texts(picture, language)),
        )
        for rank, (picture, score) in enumerate(hits, start=1)
    ]


def caption_rows(picture: str, found: Iterable[tuple[Caption, float]]) -> list[tuple[Cell, ...]]:
    """Return the rows of captions, best first, that a picture found."""
    return [
        (picture, rank, caption.text, score, int(picture in caption.pictures))
        for rank, (caption, score) in enumerate(found, start=1)
    ]


def as_csv(rows: Iterable[Sequence[Cell]]) -> str:
    """Return rows as CSV, with quotes where they are needed.

    An apostrophe is put before a text that a spreadsheet would take for a formula.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row])
    return out.getvalue()


def operation(similarity: str, how: str) -> tuple[str, str]:
    """Return the operation by which ``max`` and ``min`` combine embeddings, and a note where it is not the named one.

    See :mod:`sightword.encoder.composition`.
    """
    if similarity == "order":
        return ("maximum" if how == "max" else "minimum"), ""
    if similarity == "reversed_order":
        used, word = ("minimum", "composes") if how == "max" else ("maximum", "abstracts")
        return used, f"The order of this encoder is reversed: the elementwise {used} {word}."
    return "sum", _SUM
