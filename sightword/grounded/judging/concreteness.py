"""Ratings of how concrete words are, and the mean rating of sentences.

The file is that of Brysbaert, Warriner & Kuperman (2014): tabs, a header with the columns ``Word`` and ``Conc.M``,
ratings from 1 to 5. Ratings of two words together are in the file and never match.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sightword.errors import SemanticsError
from sightword.io.files import Pathish, check_line_ends, read_packed
from sightword.io.mapping import mapping
from sightword.messages import quote

LOWEST, HIGHEST = 1.0, 5.0
_WORD, _MEAN = "Word", "Conc.M"
_EXPECTED = f"columns separated by tabs, among them {_WORD} and {_MEAN}, as in the published file"


def read_ratings(path: Pathish) -> dict[str, float]:
    """Return the mean rating of each word in lower case.

    Raises:
        SemanticsError: the file cannot be read, is not UTF-8, lacks a column or a rating, has two ratings of a word, or
            a rating outside 1 to 5; the message names the line.
    """
    first, *lines = _lines(path)
    names = first.split("\t")
    if wrong := [name for name in (_WORD, _MEAN) if names.count(name) != 1]:
        what = f"has no column {wrong[0]}" if wrong[0] not in names else f"has the column {wrong[0]} twice"
        raise SemanticsError(what, where=f"{path}, line 1", expected=_EXPECTED)
    word_at, mean_at = names.index(_WORD), names.index(_MEAN)
    found = []
    for number, line in enumerate(lines, start=2):
        where, cells = f"{path}, line {number}", line.split("\t")
        if len(cells) != len(names):
            raise SemanticsError(
                f"has {len(cells)} columns", where=where, expected=f"{len(names)}, as in the first line"
            )
        word, value = cells[word_at].strip().lower(), _rating(cells[mean_at], where)
        if not word:
            raise SemanticsError("has no word", where=where)
        found.append((word, value, where))
    if not found:
        raise SemanticsError("has no rating", where=path, expected=_EXPECTED)
    return mapping(found, "the word", "rating", SemanticsError, todo="Delete one of the two lines.")


def _lines(path: Pathish) -> list[str]:
    raw = read_packed(path, SemanticsError)
    check_line_ends(raw.partition(b"\n")[0], path, SemanticsError)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SemanticsError("is not UTF-8", where=f"{path}, line {line}", todo="Save the file as UTF-8.") from None
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _rating(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not LOWEST <= value <= HIGHEST:
        raise SemanticsError(f"the rating is {quote(text.strip())}", where=where, expected="a number from 1 to 5")
    return value


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
