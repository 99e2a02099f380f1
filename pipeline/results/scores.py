"""The scores in a file of metrics: its numbers with fractions, each with its 95 % interval.

Stages write counts, such as the queries of a recall, as whole numbers; a score keeps its point, also where it is 100.0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pipeline.experiments.results import METRICS
from pipeline.results.records import Score
from sightword.statistics.inference import rounded

INTERVALS = ("_ci95", "_bootstrap95")
"""The endings of the names of a score's intervals; the first that is there counts."""


def read_scores(texts: Mapping[str, bytes]) -> dict[str, Score]:
    """Return the scores in files of metrics, given by path, in the order of the paths."""
    found: dict[str, Score] = {}
    for path, text in sorted(texts.items()):
        found |= find_scores(json.loads(text), prefix(path))
    return found


def prefix(path: str) -> str:
    """Return the beginning of the names of the scores in a file of metrics: ``hypernyms/evaluate``."""
    return path.removeprefix(f"{METRICS}/").removesuffix(".json")


def find_scores(values: Mapping[str, Any], above: str) -> dict[str, Score]:
    """Return the scores in nested mappings by their full names, which begin with ``above``.

    Whole numbers, texts, null, and intervals without a score are left out.
    """
    found: dict[str, Score] = {}
    for key, value in values.items():
        name = f"{above}.{key}"
        if isinstance(value, Mapping):
            found |= find_scores(value, name)
        elif isinstance(value, float) and math.isfinite(value) and not key.endswith(INTERVALS):
            interval = next((values[f"{key}{end}"] for end in INTERVALS if f"{key}{end}" in values), None)
            found[name] = Score(value=value, **_ends(value, interval))
    return found


def _ends(value: float, interval: Any) -> dict[str, float]:
    """Return the ends of an interval, which is half its width, or its ends; nothing without one."""
    ends = [value - interval, value + interval] if isinstance(interval, int | float) else interval
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(one, int | float) for one in ends):
        return {}
    return dict(zip(("low", "high"), rounded([float(one) for one in ends]), strict=True))
