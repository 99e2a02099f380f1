"""Tells text whose lines were broken at a width, as in Project Gutenberg's files, from one sentence a line."""

from __future__ import annotations

from collections.abc import Mapping

NARROWEST, WIDEST = 40, 120
"""Widths at which texts are broken."""
ROOM = 15
"""Letters by which most broken lines are shorter than the width: the next word had no room."""
LEAST = 50
"""Lines from which the shape can be told."""
SHARE = 0.7
"""The least share of lines that are nearly as long as the width. Broken text has 0.99; of texts with one sentence a
line, SNLI's short hypotheses have most, 0.47, and novels 0.17."""


def wrapped(lengths: Mapping[int, int]) -> int:
    """Return how many lines look broken at a width; 0 if the text does not have that shape.

    Args:
        lengths: how often each length occurs among the lines before a line that is not blank; the key 0 is passed over.
    """
    total = sum(count for length, count in lengths.items() if length)
    if total < LEAST:
        return 0
    near = 0
    for width in range(NARROWEST, WIDEST + 1):
        near = max(near, sum(lengths.get(length, 0) for length in range(width - ROOM, width + 1)))
    return near if near >= SHARE * total else 0
