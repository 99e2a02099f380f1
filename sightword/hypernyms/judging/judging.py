"""Scores of labelled pairs by energies: accuracy with its parts, F1, AUC and average precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.hypernyms.data.pairs import Pairs
from sightword.statistics import mean_ranks, proportion_interval, rounded

Array = NDArray[Any]


def judge(energies: Array, pairs: Pairs, inferable: Array, threshold: float) -> dict[str, Any]:
    """Return the scores of labelled pairs.

    Args:
        energies: (N,) low for true pairs.
        pairs: their labels.
        inferable: (N,) whether the closure of training and dev has the pair.
        threshold: a pair is accepted up to this energy.

    Returns:
        In percent ``accuracy`` with ``accuracy_ci95``, ``true_right``, ``false_right``, ``f1``, and the accuracy of
        parts: ``direct`` edges and all other true pairs (``indirect``), true pairs that the closure of training and dev
        has (``inferable``) or lacks (``not_inferable``), false pairs by the replaced side; a part without pairs is left
        out. As fractions ``auc`` and ``average_precision``.
    """
    labels = pairs.labels
    found, right = score(energies, labels, threshold), (energies <= threshold) == labels
    parts = {
        "true_right": labels,
        "false_right": ~labels,
        "direct": labels & pairs.direct,
        "indirect": labels & ~pairs.direct,
        "inferable": labels & inferable,
        "not_inferable": labels & ~inferable,
        "hyponym_replaced": pairs.replaced == 1,
        "hypernym_replaced": pairs.replaced == 2,
    }
    for name, part in parts.items():
        if part.any():
            found[name] = 100.0 * float(right[part].mean())
            found[f"{name}_pairs"] = int(part.sum())
    scores: dict[str, Any] = rounded(found)
    return scores


def score(energies: Array, labels: Array, threshold: float) -> dict[str, Any]:
    """Return the scores of labelled pairs as a whole, as :func:`judge`, which adds their parts."""
    accepted = energies <= threshold
    accuracy = 100.0 * float((accepted == labels).mean())
    hits = int((accepted & labels).sum())
    found: dict[str, Any] = {
        "accuracy": accuracy,
        "accuracy_ci95": proportion_interval(accuracy, len(labels)),
        "threshold": float(threshold),
        "pairs": len(labels),
        "f1": 200.0 * hits / max(1, int(accepted.sum() + labels.sum())),
        "auc": area(energies, labels),
        "average_precision": average_precision(energies, labels),
    }
    scores: dict[str, Any] = rounded(found)
    return scores


def area(energies: Array, labels: Array) -> float:
    """Return the area under the ROC curve: the chance that a true pair has less energy than a false one; ties count
    half.
    """
    ranks = mean_ranks(-energies.astype(np.float64))
    true = int(labels.sum())
    return float((ranks[labels].sum() - true * (true + 1) / 2) / (true * (len(labels) - true)))


def average_precision(energies: Array, labels: Array) -> float:
    """Return the mean, over true pairs, of the precision at the pair's energy; equal energies are accepted together."""
    order = np.argsort(energies, kind="stable")
    values, hits = energies[order], np.cumsum(labels[order])
    last = np.flatnonzero(np.append(values[1:] != values[:-1], True))
    gained = np.diff(hits[last], prepend=0)
    return float((gained * hits[last] / (last + 1)).sum() / hits[-1])


def mcnemar(first: Array, second: Array) -> tuple[int, int, float]:
    """Compare two classifiers of the same pairs by McNemar's exact test.

    Args:
        first: (N,) whether the first classifier is right.
        second: (N,) whether the second one is right.

    Returns:
        The pairs that only the first, and only the second classifies correctly, and the two-sided p-value.
    """
    from scipy.stats import binomtest

    one, other = int((first & ~second).sum()), int((second & ~first).sum())
    return one, other, float(binomtest(one, one + other).pvalue) if one + other else 1.0


def groups(energies: Array, labels: Array, by: Array, threshold: float) -> list[tuple[int, float, int]]:
    """Return (value, accuracy in percent, pairs) for each value of a property of the pairs."""
    right = (energies <= threshold) == labels
    return [(int(value), 100.0 * float(right[by == value].mean()), int((by == value).sum())) for value in np.unique(by)]
