"""All numbers of a run: scores of the embedding and of the baselines, their parts, and the mistakes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.compute import devices
from sightword.evaluation import binary
from sightword.hypernyms.data.pairs import ConceptPairs, above_known, frequency, inferable
from sightword.hypernyms.data.split import Prepared
from sightword.hypernyms.data.taxonomy import Taxonomy
from sightword.hypernyms.judging.settings import HypernymsSettings
from sightword.hypernyms.training.concepts import Concepts
from sightword.statistics.inference import rounded

Array = NDArray[Any]
MISTAKES, GLOSS = 50, 90
"""Wrong pairs that are listed, and characters of a gloss there."""


@dataclass(frozen=True)
class Measured:
    """The numbers of a run."""

    metrics: dict[str, Any]
    summary: dict[str, Any]
    histogram: list[tuple[float, float, int, int]]
    by_depth: list[tuple[int, float, int]]
    """(depth of the hyponym, accuracy, pairs)."""
    by_distance: list[tuple[int, float, int]]
    """(least number of edges between the concepts of a true pair, accuracy, pairs)."""
    mistakes: pa.Table
    scores: pa.Table
    """The energy of each pair of the split, and whether it is accepted."""


@devices.threads(1)  # how torch shares an array among threads changes the last bits of some energies
def measure(
    prepared: Prepared, concepts: Concepts, embedding: Mapping[str, Any], settings: HypernymsSettings
) -> Measured:
    """Score the embedding, the closure and the frequency on a split; thresholds come from dev.

    The closure is that of training, for test of training and dev.
    """
    taxonomy, split = prepared.taxonomy, prepared.pairs
    energy, count = embedding["energy"], len(taxonomy.names)
    dev, threshold = split["dev"], concepts.threshold
    cut, _ = binary.best_threshold(frequency(dev, split["train"], count), dev.labels, embedding["criterion"])
    metrics: dict[str, Any] = {}
    for name in dict.fromkeys(("dev", settings.split)):
        pairs = split[name]
        known = [split["train"]] if name == "dev" else [split["train"], split["dev"]]
        follows = inferable(pairs, above_known(known, count))
        energies = concepts.scores(pairs.hyponyms, pairs.hypernyms)
        metrics[name] = {
            energy: judge(energies, pairs, follows, threshold),
            "closure": judge(1.0 - follows, pairs, follows, 0.5),
            "frequency": judge(frequency(pairs, split["train"], count), pairs, follows, cut),
            "ceiling": prepared.counts[name]["ceiling"],
        }
    labels = pairs.labels  # the split that is scored comes last
    metrics["leak"] = {key: prepared.counts[settings.split][key] for key in ("in_training", "mislabelled")}
    own = metrics[settings.split][energy]
    summary = {"energy": energy, "dev": round(embedding["dev"], 4), "split": settings.split}
    summary |= {key: own[key] for key in ("accuracy", "f1", "auc", "direct", "indirect", "false_right") if key in own}
    summary |= {"closure": metrics[settings.split]["closure"]["accuracy"]}
    true = np.flatnonzero(labels)
    distance = _distances(taxonomy, pairs.hyponyms[true], pairs.hypernyms[true])
    table = {
        "hyponym": pairs.hyponyms,
        "hypernym": pairs.hypernyms,
        "label": labels,
        "direct": pairs.direct,
        "energy": energies.astype(np.float64),
        "accepted": energies <= threshold,
    }
    return Measured(
        metrics,
        summary,
        binary.histogram(energies, labels),
        groups(energies, labels, prepared.depth[pairs.hyponyms], threshold),
        groups(energies[true], labels[true], distance, threshold),
        _mistakes(taxonomy, pairs, energies, threshold),
        pa.table(table),
    )


def judge(energies: Array, pairs: ConceptPairs, inferable: Array, threshold: float) -> dict[str, Any]:
    """Return the scores of labelled pairs.

    Args:
        energies: (N,) low for true pairs.
        pairs: their labels.
        inferable: (N,) whether the closure of training and dev has the pair.
        threshold: a pair is accepted up to this energy.

    Returns:
        The scores of :func:`sightword.evaluation.binary.score`; and in percent the accuracy of parts, with
        ``NAME_pairs``: all true and all false pairs (``true_right``, ``false_right``), ``direct`` edges and all other
        true pairs (``indirect``), true pairs that the closure of training and dev has (``inferable``) or lacks
        (``not_inferable``), false pairs by the replaced side. A part without pairs is left out.
    """
    labels = pairs.labels
    found, right = binary.score(energies, labels, threshold), (energies <= threshold) == labels
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
    judged: dict[str, Any] = rounded(found)
    return judged


def groups(energies: Array, labels: Array, by: Array, threshold: float) -> list[tuple[int, float, int]]:
    """Return (value, accuracy in percent, pairs) for each value of a property of the pairs."""
    right = (energies <= threshold) == labels
    return [(int(value), 100.0 * float(right[by == value].mean()), int((by == value).sum())) for value in np.unique(by)]


def _distances(taxonomy: Taxonomy, low: Array, high: Array) -> Array:
    """Return the least number of edges from each hyponym up to its hypernym."""
    parents = taxonomy.parents
    found = np.zeros(len(low), np.int64)
    for row, (start, wanted) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        level, seen = {start}, {start}
        while wanted not in level:
            level = {up for place in level for up in parents[place]} - seen
            seen |= level
            found[row] += 1
    return found


def _mistakes(taxonomy: Taxonomy, pairs: ConceptPairs, energies: Array, threshold: float) -> pa.Table:
    """Return the wrong pairs, farthest from the threshold first."""
    rows = binary.mistakes(energies, pairs.labels, threshold, MISTAKES)
    columns: dict[str, Any] = {}
    for side, ids in (("hyponym", pairs.hyponyms[rows]), ("hypernym", pairs.hypernyms[rows])):
        columns[side] = pa.array([taxonomy.names[place] for place in ids], pa.string())
        glosses = [textwrap.shorten(taxonomy.glosses[place], GLOSS, placeholder=" …") for place in ids]
        columns[f"{side}_gloss"] = pa.array(glosses, pa.string())
    columns |= {"label": pairs.labels[rows], "direct": pairs.direct[rows], "energy": energies[rows].astype(np.float64)}
    return pa.table(columns)
