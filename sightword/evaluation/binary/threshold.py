"""The threshold below which a pair counts as true, chosen on labelled energies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def best_threshold(energies: Array, labels: Array, criterion: str = "accuracy") -> tuple[float, float]:
    """Return the threshold with the best score, and the score in percent.

    A pair is accepted when its energy is at most the threshold, so equal energies are never separated. The threshold
    lies in the middle between two energies; of several best ones it is the lowest.

    Args:
        energies: (N,) of the pairs.
        labels: (N,) whether each pair is true.
        criterion: ``accuracy`` or ``f1``.
    """
    order = np.argsort(energies, kind="stable")
    values, true = energies[order].astype(np.float64), np.cumsum(labels[order])
    last = np.flatnonzero(np.append(values[1:] != values[:-1], True))  # the last of equal energies
    hits, accepted = np.append(0, true[last]), np.append(0, last + 1)
    total = int(true[-1])
    if criterion == "f1":
        score = 200.0 * hits / (accepted + total)
    else:
        score = 100.0 * (hits + (len(values) - total) - (accepted - hits)) / len(values)
    best = int(np.argmax(score))
    ends = np.append(values[0] - 1, values[last])  # the energies at the cuts
    threshold = ends[best] if best in (0, len(last)) else (ends[best] + ends[best + 1]) / 2
    exact = threshold.astype(energies.dtype)  # or a comparison in float32 could round up to the next energy
    return float(exact if best in (0, len(last)) or exact < ends[best + 1] else ends[best]), float(score[best])
