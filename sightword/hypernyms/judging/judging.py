"""Scores of labelled pairs of concepts as a whole and by their parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.evaluation.binary.scores import score
from sightword.hypernyms.data.pairs import ConceptPairs
from sightword.statistics.inference import rounded

Array = NDArray[Any]


def judge(energies: Array, pairs: ConceptPairs, inferable: Array, threshold: float) -> dict[str, Any]:
    """Return the scores of labelled pairs.

    Args:
        energies: (N,) low for true pairs.
        pairs: their labels.
        inferable: (N,) whether the closure of training and dev has the pair.
        threshold: a pair is accepted up to this energy.

    Returns:
        The scores of :func:`sightword.evaluation.binary.scores.score`; and in percent the accuracy of parts, with
        ``NAME_pairs``: all true and all false pairs (``true_right``, ``false_right``), ``direct`` edges and all other
        true pairs (``indirect``), true pairs that the closure of training and dev has (``inferable``) or lacks
        (``not_inferable``), false pairs by the replaced side. A part without pairs is left out.
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


def groups(energies: Array, labels: Array, by: Array, threshold: float) -> list[tuple[int, float, int]]:
    """Return (value, accuracy in percent, pairs) for each value of a property of the pairs."""
    right = (energies <= threshold) == labels
    return [(int(value), 100.0 * float(right[by == value].mean()), int((by == value).sum())) for value in np.unique(by)]
