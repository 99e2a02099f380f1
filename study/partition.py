"""Divides the semantic scores of runs into what weights of n-grams, pairs of captions, and pictures add.

``python -m tools.partition CAPTIONS --pairs TABLE... --pictures TABLE...`` reads the captions of a run
(``data/captions/captions.parquet``), the tables of pairs (``data/semantics/pairs.parquet``) of encoders that learned
from captions alone, and of encoders that learned from pictures too, a seed each; it writes the row
``results/controls/partition.json``. For each subtask the row has Pearson's r of

- *spelling*: the cosine of counted n-grams of characters, and the gains over the one before of
- *weighting*: the same with the inverse document frequency of the training captions,
- *pairs*: the encoders that compare captions of one picture,
- *pictures*: the encoders that see the pictures too,

each of the latter two as the mean over its seeds. Intervals and p are those of the bootstrap over pairs
(:mod:`sightword.statistics.bootstrap`) with the same draws for all seeds; p has Holm's correction over all gains.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.results.records import Row, Run, Score, write_row
from sightword.captions.table import read_captions
from sightword.evaluation.semantics.pair_table import PairTable, read_pairs
from sightword.evaluation.semantics.tfidf import TfIdf
from sightword.statistics.bootstrap import pearson_differences, resampled
from sightword.statistics.inference import holm, pearson

Doubles = NDArray[np.float64]
Key = tuple[str, str]
SAMPLES = 10_000
SOURCE = (
    "DenseNet-169 of squashed copies of Flickr8k's pictures, not computed here; the recipe `flickr8k-densenet` makes "
    "features like them"
)
PRIVATE = {"data/raw/features": SOURCE}


def main() -> None:
    """Write the row from the named tables."""
    parser = argparse.ArgumentParser(description="Divide semantic scores into weighting, pairs and pictures.")
    parser.add_argument("captions", type=Path, help="captions.parquet of one of the runs")
    parser.add_argument("--pairs", type=Path, nargs="+", required=True, help="tables of encoders of captions alone")
    parser.add_argument("--pictures", type=Path, nargs="+", required=True, help="tables of encoders of pictures too")
    options = parser.parse_args()
    captions = read_captions(options.captions)
    training = [text for text, split in zip(captions.texts, captions.splits, strict=True) if split == "train"]
    scores = partition(training, [*map(read_pairs, options.pairs)], [*map(read_pairs, options.pictures)])
    seeds = list(range(len(options.pictures)))
    row = Row(
        topic="controls", name="partition", recipe="flickr8k-ngrams", private=PRIVATE,
        note="Made by `tools/partition.py` of the runs of controls/captions-only and ngrams/base",
        runs=[Run(seeds=seeds, scores=scores)],
    )  # fmt: skip
    sys.stdout.write(f"{write_row(Path(), row)}\n")


def partition(training: Sequence[str], pairs: Sequence[PairTable], pictures: Sequence[PairTable]) -> dict[str, Score]:
    """Return spelling's r, and the gains with interval and corrected p, by component, task and subtask; and the means
    over the subtasks of STS12 to STS16.
    """
    known = {key: table for key, table in pairs[0].subtasks.items() if key[1] != "trained"}
    texts = [text for table in known.values() for text in (*table.first, *table.second)]
    weighted, plain = TfIdf(training), TfIdf([""])  # no caption has an n-gram, so that all weigh the same
    systems: dict[str, dict[Key, list[Doubles]]] = {}
    for name, control in (("spelling", plain), ("weighting", weighted)):
        control.prepare(texts)
        systems[name] = {key: [control.cosines(one.first, one.second)] for key, one in known.items()}
    for name, tables in (("pairs", pairs), ("pictures", pictures)):
        systems[name] = {key: [table.subtasks[key].score for table in tables] for key in known}
    gold = {key: one.gold for key, one in known.items()}
    in_mean = [key for key in known if key[0] in ("STS12", "STS13", "STS14", "STS15", "STS16")]
    found = {f"spelling.{'.'.join(key)}": Score(value=_mean_r(gold[key], systems["spelling"][key])) for key in known}
    found["spelling.mean"] = _mean([found[f"spelling.{'.'.join(key)}"].value for key in in_mean])
    chances: dict[str, float] = {}
    for below, name in (("spelling", "weighting"), ("weighting", "pairs"), ("pairs", "pictures")):
        drawn: dict[str, Doubles] = {}
        for key in known:
            place = ".".join(key)
            above, under = systems[name][key], systems[below][key]
            drawn[place] = _differences(gold[key], above, under, " ".join(key))
            gain = _mean_r(gold[key], above) - _mean_r(gold[key], under)
            _enter(found, chances, f"{name}.{place}", gain, drawn[place])
        every = [".".join(key) for key in in_mean]
        gain = float(np.mean([found[f"{name}.{place}"].value for place in every]))
        _enter(found, chances, f"{name}.mean", gain, np.mean([drawn[place] for place in every], axis=0))
    for place, p in zip(chances, holm(list(chances.values())), strict=True):
        found[f"{place}.p"] = Score(value=round(p, 6))
    return {f"note.partition.{place}": score for place, score in found.items()}


def _mean_r(gold: Doubles, scores: Sequence[Doubles]) -> float:
    return float(np.mean([pearson(gold, one) or 0.0 for one in scores]))


def _mean(values: Sequence[float]) -> Score:
    return Score(value=round(float(np.mean(values)), 6))


def _differences(gold: Doubles, above: Sequence[Doubles], below: Sequence[Doubles], name: str) -> Doubles:
    """Return the mean over seeds of the resampled differences; a system of one seed stands beside each of the other."""
    seeds = max(len(above), len(below))
    each = [
        pearson_differences(
            gold, above[seed % len(above)], below[seed % len(below)], samples=SAMPLES, seed=0, name=name
        )
        for seed in range(seeds)
    ]
    mean: Doubles = np.mean(each, axis=0)
    return mean


def _enter(found: dict[str, Score], chances: dict[str, float], place: str, gain: float, differences: Doubles) -> None:
    drawn = resampled(differences)
    assert drawn is not None
    found[place] = Score(value=round(gain, 6), low=round(drawn.low, 6), high=round(drawn.high, 6))
    chances[place] = drawn.p


if __name__ == "__main__":
    main()
