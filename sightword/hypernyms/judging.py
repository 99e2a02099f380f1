"""All numbers of a run: scores of the embedding and of the baselines, their parts, and the mistakes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.compute import devices
from sightword.evaluation import binary
from sightword.evaluation.binary import Measured, best_threshold
from sightword.hypernyms.data.pairs import ConceptPairs, frequency, inferable
from sightword.hypernyms.data.taxonomy import Taxonomy
from sightword.hypernyms.training.concepts import Concepts
from sightword.statistics.inference import rounded

Array = NDArray[Any]
MISTAKES, GLOSS = 50, 90
"""Wrong pairs that are listed, and characters of a gloss there."""


@devices.threads(1)  # how torch shares an array among threads changes the last bits of some energies
def measure(
    taxonomy: Taxonomy, splits: Mapping[str, ConceptPairs], counts: Mapping[str, Any], concepts: Concepts,
    embedding: Mapping[str, Any],
) -> Measured:  # fmt: skip
    """Score the embedding, the closure and the frequency on dev and test.

    Thresholds come from dev. The closure is that of training, for test of training and dev. ``counts`` are those of
    the stage taxonomy, ``embedding`` the numbers of the stage train.
    """
    energy, count, threshold = embedding["energy"], len(taxonomy.names), concepts.threshold
    dev, train = splits["dev"], splits["train"]
    cut, _ = best_threshold(frequency(dev, train, count), dev.labels, embedding["criterion"])
    metrics: dict[str, Any] = {}
    for name in ("dev", "test"):
        pairs = splits[name]
        follows = inferable(pairs, [train] if name == "dev" else [train, dev], count)
        energies = concepts.scores(pairs.hyponyms, pairs.hypernyms)
        metrics[name] = {
            energy: judge(energies, pairs, follows, threshold),
            "closure": judge(1.0 - follows, pairs, follows, 0.5),
            "frequency": judge(frequency(pairs, train, count), pairs, follows, cut),
            "ceiling": counts[name]["ceiling"],
        }
    metrics["leak"] = {key: counts["test"][key] for key in ("in_training", "mislabelled")}
    ours = metrics["test"][energy]
    summary = {"energy": energy, "dev": round(embedding["dev"], 4), "split": "test"}
    summary |= {key: ours[key] for key in ("accuracy", "f1", "auc", "direct", "indirect", "false_right") if key in ours}
    summary |= {"closure": metrics["test"]["closure"]["accuracy"]}
    table = {
        "hyponym": pairs.hyponyms,  # of test, which comes last
        "hypernym": pairs.hypernyms,
        "label": pairs.labels,
        "direct": pairs.direct,
        "energy": energies.astype(np.float64),
        "accepted": energies <= threshold,
    }
    histogram = binary.histogram(energies, pairs.labels)
    return Measured(metrics, summary, histogram, _mistakes(taxonomy, pairs, energies, threshold), pa.table(table))


def judge(energies: Array, pairs: ConceptPairs, inferable: Array, threshold: float) -> dict[str, Any]:
    """Return the scores of labelled pairs with energies (N,), low for true pairs and accepted up to the threshold.

    ``inferable`` says which pairs the closure of training and dev has.

    Returns:
        The scores of :func:`sightword.evaluation.binary.score`; and in percent the accuracy of parts, with
        ``NAME_pairs``: all true and all false pairs (``true_right``, ``false_right``), ``direct`` edges and all other
        true pairs (``indirect``), true pairs that the closure of training and dev has (``inferable``) or lacks
        (``not_inferable``), false pairs by the replaced side. A part without pairs is left out.
    """
    labels = pairs.labels
    judged, right = binary.score(energies, labels, threshold), (energies <= threshold) == labels
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
            judged[name] = 100.0 * float(right[part].mean())
            judged[f"{name}_pairs"] = int(part.sum())
    result: dict[str, Any] = rounded(judged)
    return result


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
