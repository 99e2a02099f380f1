"""Ratings of how concrete words are, and the mean rating of sentences.

The file is that of Brysbaert, Warriner & Kuperman (2014): tabs, a header with the columns ``Word`` and ``Conc.M``,
ratings from 1 to 5. Ratings of two words together are in the file and never match.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sightword.errors import SemanticsError
from sightword.io.files import Pathish
from sightword.io.mapping import mapping
from sightword.io.tables import Table, number

LOWEST, HIGHEST = 1.0, 5.0
_RATINGS = Table(
    ("Word", "Conc.M"),
    SemanticsError,
    todo="The published file has columns separated by tabs, among them Word and Conc.M.",
)


def read_ratings(path: Pathish) -> dict[str, float]:
    """Return the mean rating of each word in lower case.

    Raises:
        SemanticsError: the file cannot be read, is not UTF-8, lacks a column or a rating, has two ratings of a word, or
            a rating outside 1 to 5; the message names the line.
    """
    found = [
        (word.lower(), number(mean, where, "the rating", SemanticsError, low=LOWEST, high=HIGHEST), where)
        for where, (word, mean) in _RATINGS.rows(Path(path))
    ]
    return mapping(found, "the word", "rating", SemanticsError, todo="Delete one of the two lines.")


def tokens(sentence: str) -> list[str]:
    """Return the runs of the letters a to z of a sentence in lower case."""
    return re.findall(r"[a-z]+", sentence.lower())


def mean_rating(ratings: Mapping[str, float], sentences: Iterable[str]) -> dict[str, Any]:
    """Return ``mean``, the mean rating of all rated tokens (None if none is rated), ``tokens`` and ``rated``.

    A token counts as often as it occurs: on the test pairs of STS Benchmark, these are the paper's means up to the
    words that count as tokens.
    """
    every = [token for sentence in sentences for token in tokens(sentence)]
    rated = [ratings[token] for token in every if token in ratings]
    mean = math.fsum(rated) / len(rated) if rated else None
    return {"mean": mean, "tokens": len(every), "rated": len(rated)}
