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
from sightword.evaluation.binary import scores
from sightword.evaluation.binary.threshold import best_threshold
from sightword.hypernyms.data.baselines import above_known, frequency, inferable
from sightword.hypernyms.data.pairs import ConceptPairs
from sightword.hypernyms.data.storage import Prepared
from sightword.hypernyms.data.taxonomy import Taxonomy
from sightword.hypernyms.judging.judging import groups, judge
from sightword.hypernyms.judging.settings import HypernymsSettings
from sightword.hypernyms.training.concepts import Concepts

Array = NDArray[Any]
GLOSS = 90
"""Characters of a gloss in the list of mistakes."""


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
    metrics: dict[str, Any] = {}
    for name in dict.fromkeys(("dev", settings.split)):
        pairs = split[name]
        known = [split["train"]] if name == "dev" else [split["train"], split["dev"]]
        follows = inferable(pairs, above_known(known, count))
        energies = concepts.scores(pairs.hyponyms, pairs.hypernyms)
        often = frequency(pairs, split["train"], count)
        dev = split["dev"]
        cut, _ = best_threshold(frequency(dev, split["train"], count), dev.labels, embedding["criterion"])
        metrics[name] = {
            energy: judge(energies, pairs, follows, concepts.threshold),
            "closure": judge(1.0 - follows, pairs, follows, 0.5),
            "frequency": judge(often, pairs, follows, cut),
            "ceiling": prepared.counts[name]["ceiling"],
        }
    pairs, labels = split[settings.split], split[settings.split].labels
    energies = concepts.scores(pairs.hyponyms, pairs.hypernyms)
    metrics["leak"] = {key: prepared.counts[settings.split][key] for key in ("in_training", "mislabelled")}
    own = metrics[settings.split][energy]
    summary = {"energy": energy, "dev": round(embedding["dev"], 4), "split": settings.split}
    summary |= {key: own[key] for key in ("accuracy", "f1", "auc", "direct", "indirect", "false_right") if key in own}
    summary |= {"closure": metrics[settings.split]["closure"]["accuracy"]}
    true = np.flatnonzero(labels)
    distance = _distances(taxonomy, pairs.hyponyms[true], pairs.hypernyms[true])
    return Measured(
        metrics,
        summary,
        scores.histogram(energies, labels),
        groups(energies, labels, prepared.depth[pairs.hyponyms], concepts.threshold),
        groups(energies[true], labels[true], distance, concepts.threshold),
        _mistakes(taxonomy, pairs, energies, concepts.threshold, settings.mistakes),
        pa.table(
            {
                "hyponym": pairs.hyponyms,
                "hypernym": pairs.hypernyms,
                "label": labels,
                "direct": pairs.direct,
                "energy": energies.astype(np.float64),
                "accepted": energies <= concepts.threshold,
            }
        ),
    )


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


def _mistakes(taxonomy: Taxonomy, pairs: ConceptPairs, energies: Array, threshold: float, number: int) -> pa.Table:
    """Return the wrong pairs, farthest from the threshold first."""
    rows = scores.mistakes(energies, pairs.labels, threshold, number)
    columns: dict[str, Any] = {}
    for side, ids in (("hyponym", pairs.hyponyms[rows]), ("hypernym", pairs.hypernyms[rows])):
        columns[side] = pa.array([taxonomy.names[place] for place in ids], pa.string())
        glosses = [textwrap.shorten(taxonomy.glosses[place], GLOSS, placeholder=" …") for place in ids]
        columns[f"{side}_gloss"] = pa.array(glosses, pa.string())
    columns |= {"label": pairs.labels[rows], "direct": pairs.direct[rows], "energy": energies[rows].astype(np.float64)}
    return pa.table(columns)
