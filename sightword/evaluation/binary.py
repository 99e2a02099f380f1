"""Binary decisions by energies, which are low for true pairs: threshold, scores, mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.statistics.inference import proportion_interval, rounded

Array = NDArray[Any]
BINS = 40


@dataclass(frozen=True)
class Measured:
    """The numbers of a run."""

    metrics: dict[str, Any]
    summary: dict[str, Any]
    histogram: list[tuple[float, float, int, int]]
    """(from, to, true pairs, false pairs) of the trained system's energies."""
    mistakes: pa.Table
    scores: pa.Table
    """The energy of each pair of the split, and whether it is accepted."""


def score(energies: Array, labels: Array, threshold: float) -> dict[str, Any]:
    """Return the scores of labelled pairs (N,), of which some are true, and some are not.

    ``accuracy`` in percent of accepting pairs up to the ``threshold``, with ``accuracy_ci95``; ``pairs``; ``f1`` of the
    true pairs in percent; as fractions ``auc``, the chance that a true pair has less energy than a false one, where
    ties count half, and ``average_precision``, where equal energies are accepted together.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    accepted = energies <= threshold
    accuracy = 100.0 * float((accepted == labels).mean())
    hits = int((accepted & labels).sum())
    entry: dict[str, Any] = {
        "accuracy": accuracy,
        "accuracy_ci95": proportion_interval(accuracy, len(labels)),
        "threshold": float(threshold),
        "pairs": len(labels),
        "f1": 200.0 * hits / max(1, int(accepted.sum() + labels.sum())),
        "auc": float(roc_auc_score(labels, -energies)),
        "average_precision": float(average_precision_score(labels, -energies)),
    }
    scores: dict[str, Any] = rounded(entry)
    return scores


def histogram(energies: Array, labels: Array) -> list[tuple[float, float, int, int]]:
    """Return (from, to, true pairs, false pairs) of equal steps to the 99th percentile; the last one has the rest."""
    top = float(np.quantile(energies, 0.99))
    edges = np.linspace(float(energies.min()), max(top, float(energies.min()) + 1e-6), BINS + 1)
    within = np.clip(energies, edges[0], edges[-1])
    counts = [np.histogram(within[part], edges)[0] for part in (labels, ~labels)]
    return [(float(edges[i]), float(edges[i + 1]), int(counts[0][i]), int(counts[1][i])) for i in range(BINS)]


def mistakes(energies: Array, labels: Array, threshold: float, most: int) -> NDArray[np.int64]:
    """Return the rows of at most so many wrongly judged pairs, farthest from the threshold first."""
    wrong = np.flatnonzero((energies <= threshold) != labels)
    return wrong[np.argsort(-np.abs(energies[wrong] - threshold), kind="stable")][:most]


def best_threshold(energies: Array, labels: Array, criterion: str = "accuracy") -> tuple[float, float]:
    """Return the threshold with the best ``accuracy`` or ``f1`` of labelled energies (N,), and the score in percent.

    A pair is accepted when its energy is at most the threshold, so equal energies are never separated. The threshold
    lies in the middle between two energies; of several best ones it is the lowest.
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
    below = min(values[0] - 1, np.nextafter(energies[order[0]], -np.inf))  # less 1, a large energy may stay the same
    ends = np.append(below, values[last])  # the energies at the cuts
    threshold = ends[best] if best in (0, len(last)) else (ends[best] + ends[best + 1]) / 2
    exact = threshold.astype(energies.dtype)  # or a comparison in float32 could round up to the next energy
    return float(exact if best in (0, len(last)) or exact < ends[best + 1] else ends[best]), float(score[best])
