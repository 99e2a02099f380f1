"""Whether the 95 % interval of a score follows from the score and a whole number of cases.

The number is not in the rows. For recall and accuracy (:func:`sightword.statistics.inference.proportion_interval`), and
for correlations (Fisher's z), it follows from the ends; an edited value or end gives no whole number, or one for which
the score is no share of the cases. Intervals by resampling have no number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from sightword.statistics.inference import Z95, fisher_interval, interval_ends, proportion_interval, rank_interval
from study.rows import Row, Score

CASES = {
    "caption_to_image": (5000, 250),
    "image_to_caption": (1000, 50),
    "hypernyms/": (8000, 74_326),
    "STSBenchmark": (1379,),
    "SICK": (4927,),
}
"""The numbers of test cases where the ends are known to few digits, by a part of the score's name: Flickr8k and its 50
pictures, the splits of WordNet here and of Li et al. (2019), sentence pairs."""
FEW = 4
"""Decimals of an end below which the number of cases does not follow from the ends."""
MOST = 5000.0
"""Numbers of cases that rounding may leave; an interval with more is refused."""
_SHARE = re.compile(r".*\.(r\d+|accuracy)")
_CORRELATION = re.compile(r".*\.(pearson|spearman)")
_CLUSTERED = re.compile(r"entailment/evaluate\.(?!dev\.).*")
"""Shares of cases in clusters, whose effective number is not whole."""
_ROUNDING = 2e-6
"""Scores and intervals are rounded to six decimals."""


def faults(rows: Mapping[str, Row]) -> list[str]:
    """Return a line for each score whose interval does not follow from it."""
    return [
        f"{key}: {name} = {score.value:g}: its 95 % interval, {score.low:g} to {score.high:g}, is that "
        f"of another score or number of cases (seed {run.seeds[0]})"
        for key, row in rows.items()
        for run in row.runs
        for name, score in run.scores.items()
        if not follows(name, score)
    ]


def follows(name: str, score: Score) -> bool:
    """Return whether the interval of a score follows from it; true where nothing is known of the number of cases."""
    share = _SHARE.fullmatch(name)
    if score.low is None or score.high is None or not (share or _CORRELATION.fullmatch(name)):
        return True
    if not (0.0 <= score.value <= 100.0 if share else -1.0 <= score.value <= 1.0):
        return False
    ends = (score.low, score.high)
    decimals = max(map(_decimals, ends))
    if decimals < FEW:
        cases = [number for part, numbers in CASES.items() if part in name for number in numbers]
        slack = 0.5 * 10**-decimals + 0.5 * 10 ** -_decimals(score.value)
        return not cases or any(_near(_ends(name, score.value, number), ends, slack) for number in cases)
    if _CLUSTERED.fullmatch(name):
        return any(_near(_ends(name, score.value, max(1.0, number)), ends) for number, _ in _shares(score.value, *ends))
    numbers = _shares(score.value, *ends) if share else _pairs(name, score.value, *ends)
    return any(
        _follows(name, score.value, ends, whole)
        for number, doubt in numbers
        if doubt < MOST
        for whole in range(max(1, round(number - doubt)), round(number + doubt) + 1)
    )


def _follows(name: str, value: float, ends: tuple[float, float], number: int) -> bool:
    """Return whether a score of a whole number of cases has some ends, and is a share of them."""
    exact = 100.0 * round(value * number / 100.0) / number if _SHARE.fullmatch(name) else value
    return abs(exact - value) < _ROUNDING and _near(_ends(name, exact, number), ends)


def _ends(name: str, value: float, number: float) -> tuple[float, float]:
    if _SHARE.fullmatch(name):
        return interval_ends(value, proportion_interval(value, number))
    of = rank_interval if name.endswith("spearman") else fisher_interval
    return of(value, round(number)) or (-1.0, 1.0)


def _shares(value: float, low: float, high: float) -> Iterable[tuple[float, float]]:
    """Return the numbers of cases with which Wald's and Wilson's interval have some ends, and what rounding changes."""
    half, middle = (high - low) / 2.0, (high + low) / 2.0
    if half:
        number = Z95 * Z95 * value * (100.0 - value) / (half * half)
        yield number, 2.0 * number * _ROUNDING / half
    if middle != value:
        number = Z95 * Z95 * (middle - 50.0) / (value - middle)
        if number * min(value, 100.0 - value) < 1100.0:  # with more hits and misses than ten the interval is Wald's
            yield number, abs(number * _ROUNDING / (value - middle))


def _pairs(name: str, value: float, low: float, high: float) -> Iterable[tuple[float, float]]:
    """Return the number of pairs with which Fisher's interval has some ends, and what rounding changes."""
    if not -1.0 < low < high < 1.0:
        yield 4.0, 0.0  # a perfect correlation has the same ends with any number
        return
    variance = 1.0 + value * value / 2.0 if name.endswith("spearman") else 1.0
    number = variance * (2.0 * Z95 / (math.atanh(high) - math.atanh(low))) ** 2 + 3.0
    yield number, 4.0 * number * _ROUNDING / (high - low)


def _near(ends: tuple[float, float], others: tuple[float, float], slack: float = _ROUNDING) -> bool:
    return all(abs(one - other) <= slack for one, other in zip(ends, others, strict=True))


def _decimals(value: float) -> int:
    return len(f"{value:.6f}".rstrip("0").partition(".")[2])
