"""The summary of all scenarios: one number for each measure, over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sightword.grounded.page.results import KEYS, Run


def over_seeds(runs: Sequence[Run], values: Sequence[float | None]) -> tuple[float, float | None] | None:
    """Return the mean and the standard deviation (of a sample) of the runs' values; None if a value is undefined.

    The deviation is None for one seed, and where all seeds have the same results throughout: nothing was trained.
    """
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values) or not numbers:
        return None
    varies = any(run.metrics["spaces"] != runs[0].metrics["spaces"] for run in runs)
    return float(np.mean(numbers)), float(np.std(numbers, ddof=1)) if varies else None


def summary(scenarios: Mapping[str, Sequence[Run]]) -> dict[str, float]:
    """Return the content of ``metrics/grounded/summary.json``.

    The keys are ``SCENARIO.MEASURE`` with the measures of :data:`KEYS`, in the space in which the scenario is judged,
    and of a trained one with several seeds ``SCENARIO.MEASURE_sd``. Structure and correlations are fractions,
    accuracies percent. A measure that is undefined or was not judged has no key.
    """
    found = {}
    for name, runs in scenarios.items():
        for key in KEYS:
            if (number := over_seeds(runs, [run.score(key) for run in runs])) is not None:
                mean, deviation = number
                found[f"{name}.{key}"] = round(mean, 6)
                if deviation is not None:
                    found[f"{name}.{key}_sd"] = round(deviation, 6)
    return found
