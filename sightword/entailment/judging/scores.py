"""Scores of labelled sentence pairs by energies: the whole, each class, length and source, and McNemar's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.entailment.data.pairs import LABELS, SentencePairs
from sightword.entailment.judging.classifiers import words
from sightword.evaluation.binary import best_threshold, score
from sightword.statistics.inference import clustered_interval, holm, mcnemar, rounded

Array = NDArray[Any]
Masks = dict[str, dict[str, Array]]
"""By property and value: which (N,) pairs have the value."""

BOUNDS = {"premise_words": (9, 14, 21), "hypothesis_words": (6, 9, 13)}
"""The first length, in words, of each range after the first."""


@dataclass(frozen=True)
class System:
    """A system with its energies; a pair counts as entailed up to the threshold."""

    name: str
    """Its key in the metrics."""
    dev: Array
    """(M,) energies of the pairs of dev."""
    energies: Array
    """(N,) energies of the pairs that are scored."""
    swapped: Array
    """(N,) their energies with premise and hypothesis exchanged."""
    threshold: float
    classes: Array | None = None
    """(N,) the judged class of each pair, its place among three; None for a system that does not tell them apart."""
    same: str | None = None
    """The other system that this one is, under a second name: it is compared under that one's."""

    @classmethod
    def chosen(cls, name: str, energies: Sequence[Array], entailed: Array, criterion: str = "accuracy") -> System:
        """Return a system with the best threshold on dev, whose (M,) pairs are entailed or not; energies are of dev, of
        the pairs that are scored, and of these with premise and hypothesis exchanged.
        """
        dev, found, swapped = energies
        return cls(name, dev, found, swapped, best_threshold(dev, entailed, criterion)[0])

    def right(self, entailed: Array) -> Array:
        """Return which (N,) pairs are judged as labelled."""
        found: Array = (self.energies <= self.threshold) == entailed
        return found


def parts(pairs: SentencePairs) -> Masks:
    """Return the pairs of each class, range of words and source; a value without pairs is left out."""
    labels, sources = np.array(pairs.labels, object), np.array(pairs.sources, object)
    found: Masks = {"class": {name: labels == name for name in LABELS}}
    for side, texts in (("premise_words", pairs.premises), ("hypothesis_words", pairs.hypotheses)):
        count = {text: len(words(text)) for text in set(texts)}
        ranges = np.searchsorted(BOUNDS[side], [count[text] for text in texts], side="right")
        found[side] = {name: ranges == place for place, name in enumerate(_names(BOUNDS[side]))}
    found["source"] = {name: sources == name for name in sorted(set(pairs.sources))}
    return {by: {name: mask for name, mask in masks.items() if mask.any()} for by, masks in found.items()}


def _names(bounds: Sequence[int]) -> list[str]:
    starts, ends = [0, *bounds], [*bounds]
    return [*(f"{low}-{high - 1}" for low, high in zip(starts, ends, strict=False)), f"{starts[-1]}+"]


def judge(energies: Array, entailed: Array, masks: Masks, threshold: float, clusters: Array) -> dict[str, Any]:
    """Return the scores of pairs, as :func:`sightword.evaluation.binary.score`.

    By each property and value of the masks (:func:`parts`), such as ``found["class"]["neutral"]``, there are
    ``accuracy``, ``accuracy_ci95`` and ``pairs``. Intervals take the pairs of one of the (N,) clusters, the premises,
    as one.
    """
    right = (energies <= threshold) == entailed
    found = score(energies, entailed, threshold) | share(right, clusters)
    for by, values in masks.items():
        found[by] = {name: share(right[mask], clusters[mask]) for name, mask in values.items()}
    return found


def share(right: Array, clusters: Array) -> dict[str, Any]:
    """Return the accuracy in percent of (N,) judgments that are right or wrong, with its interval over clusters."""
    interval = clustered_interval(right, clusters)
    found = {"accuracy": 100.0 * float(right.mean()), "accuracy_ci95": interval, "pairs": len(right)}
    shares: dict[str, Any] = rounded(found)
    return shares


def three_classes(systems: Sequence[System], pairs: SentencePairs, clusters: Array) -> dict[str, Any]:
    """Return the scores in three classes of the systems that tell them apart, under ``systems``.

    A system has those of :func:`share`, and in ``class`` those of each class; ``significance`` compares them.
    """
    labels = pairs.classes(3)
    rights = {one.name: one.classes == labels for one in systems if one.classes is not None}
    second = {one.name for one in systems if one.same is not None}
    found = {
        name: share(right, clusters)
        | {"class": {label: share(right[mask], clusters[mask]) for label, mask in parts(pairs)["class"].items()}}
        for name, right in rights.items()
    }
    distinct = {name: right for name, right in rights.items() if name not in second}
    return {"systems": found, "significance": significance(distinct, clusters)}


def significance(rights: Mapping[str, Array], clusters: Array) -> dict[str, dict[str, Any]]:
    """Compare all systems by twos by McNemar's test over clusters, with Holm's correction over all comparisons.

    By ``one_vs_other``: the ``difference`` of accuracies in percent, the pairs that only one judges as labelled
    (``only_first``, ``only_second``), ``p`` and ``holm``.
    """
    twos = list(combinations(rights, 2))
    tests = [mcnemar(rights[one], rights[other], clusters) for one, other in twos]
    corrected = holm([p for _, _, p in tests])
    return {
        f"{one}_vs_{other}": {
            "difference": round(100.0 * (only - only_other) / len(rights[one]), 6),
            "only_first": only,
            "only_second": only_other,
            "p": p,
            "holm": after,
        }
        for (one, other), (only, only_other, p), after in zip(twos, tests, corrected, strict=True)
    }
