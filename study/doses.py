"""What right pictures gain, and what a second caption gains, by dose: differences of Pearson's r with people's scores.

``python -m study.doses RATINGS SENTEVAL FOLDER`` in the repository's folder writes the row ``doses/gains``. FOLDER has
``data/semantics/pairs.parquet`` of each run of study/recipes/grid-doses*.yaml as ``NAME.SEED.parquet``, by the name of
its row, such as ``500-1-captions-only`` for 500 pictures with one caption. RATINGS is the file of Brysbaert et al.
(2014); SENTEVAL has the genres of STS Benchmark.

A gain is the mean over seeds. The variance of a gain is that over pairs of sentences, of the gains in resamples
(:mod:`sightword.statistics.bootstrap`, the same draws for all seeds and doses), plus that over seeds. Intervals and
tests take Student's distribution with the degrees of freedom of Satterthwaite (1946): one less than seeds for the part
of the seeds, infinitely many for that of the pairs. Of one seed they are over pairs alone, and too sure.
``equivalence`` is the larger p of two one-sided tests (Schuirmann 1987) that the gain is within :data:`BOUND` of 0;
``corrected`` has Holm's correction over all means over doses of two or more captions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t
from tqdm import tqdm

from sightword.evaluation.published import in_mean
from sightword.evaluation.semantics.results import PairTable, ScoredPairs, read_pairs
from sightword.grounded.judging.measuring import BENCHMARK, WHOLE, mean_rating, read_parts, read_ratings
from sightword.statistics.bootstrap import resampled_pearson
from sightword.statistics.inference import holm, pearson
from study.rows import Row, Run, Score, write_row

Doubles = NDArray[np.float64]
FLOOR = "-tf-idf"
DOSE = re.compile(r"([a-z]+-|)(\d+)-(\d+)")
"""The name of a row with right pictures: a sweep of its own, the pictures, and the captions a picture."""
SIDES = {
    "none": (r"\g<0>", r"\g<0>-captions-only"),
    "wrong": (r"\g<0>", r"\g<0>-wrong-pictures"),
    "floor": (r"\g<0>", rf"\2-\3{FLOOR}"),
    "paraphrase": (r"\g<0>", r"\1\2-2-captions-only"),
    "second": (r"\1\2-2-captions-only", r"\g<0>-captions-only"),
}
"""What gains, and above what, by the name of the dose. A paraphrase is a second caption of each picture, without the
pictures; ``second`` is what it gains."""
OF_ONE_CAPTION = ("paraphrase", "second")
IN_PARTS = ("none", "wrong", "second")
"""The sides whose gains are divided by genre and concreteness."""
IMAGE_CAPTIONS = (("STS12", "MSRvid"), ("STS14", "images"), ("STS15", "images"))
"""The subtasks of STS12 to STS16 whose sentences describe pictures or videos."""
BOUND = 0.005
"""Half a point of 100 r."""
SAMPLES = 2000
SOURCE = (
    "DenseNet-169 of squashed copies of Flickr8k's pictures, not computed here; the recipe `flickr8k-densenet` makes "
    "features like them"
)


class Gain(NamedTuple):
    """A gain by seed (S,), and in each resample of the pairs (S, R)."""

    values: Doubles
    resamples: Doubles

    def __sub__(self, other: Gain) -> Gain:
        return Gain(self.values - other.values, self.resamples - other.resamples)

    def of(self, places: list[int]) -> Gain:
        """Return the gain by the seeds at some places."""
        return Gain(self.values[places], self.resamples[places])

    def scores(self) -> dict[str, Score]:
        """Return the mean over seeds with its 95 % interval, and the p of equivalence."""
        value, seeds = float(self.values.mean()), len(self.values)
        over_pairs = float(np.var(self.resamples.mean(axis=0), ddof=1))
        over_seeds = float(np.var(self.values, ddof=1)) / seeds if seeds > 1 else 0.0
        variance = over_pairs + over_seeds
        freedom = (seeds - 1) * (variance / over_seeds) ** 2 if over_seeds else np.inf
        error = float(np.sqrt(variance))
        half = float(t.ppf(0.975, freedom)) * error
        ends = {"low": round(value - half, 6), "high": round(value + half, 6)}
        p = float(t.sf((BOUND - abs(value)) / error, freedom))
        return {"": Score(value=round(value, 6), **ends), ".equivalence": Score(value=round(p, 6))}


def _mean(gains: list[Gain]) -> Gain:
    """Return the mean of gains with the same seeds."""
    return Gain(*(np.mean(parts, axis=0) for parts in zip(*gains, strict=True)))


def _stacked(gains: list[Gain]) -> Gain:
    """Return the gain of all seeds."""
    return Gain(*(np.concatenate(parts) for parts in zip(*gains, strict=True)))


def scores_of(
    tables: Mapping[tuple[str, int], PairTable], ratings: Mapping[str, float], genres: Sequence[str] = ()
) -> dict[str, Score]:
    """Return all gains by side of :data:`SIDES`, dose and task, and their means over doses with as many captions.

    The tasks are STSBenchmark, SICKRelatedness, and ``sts``, the mean of the subtasks of STS12 to STS16. Of some sides
    STSBenchmark is divided by genre, captions by how concrete their words are (:func:`thirds`), and ``sts`` into
    :data:`IMAGE_CAPTIONS` and others. A mean over doses has the seeds that all the doses have, and leaves out numbers
    of pictures that no dose has with two captions, where other numbers have these.
    """
    found: dict[str, Score] = {}
    together: list[str] = []
    of_tasks = _correlations(tables, ratings, genres)
    names = [name for name in dict.fromkeys(name for name, _ in tables) if DOSE.fullmatch(name)]
    paired = {name.removesuffix("-2") for name in names if name.endswith("-2")}
    for side, (ours, theirs) in SIDES.items():
        of_captions: dict[tuple[str, str], list[tuple[list[int], Gain]]] = {}
        for name in names:
            dose = DOSE.fullmatch(name)
            if not dose or (side in OF_ONE_CAPTION and dose[3] != "1"):
                continue
            counted = not paired or name.rpartition("-")[0] in paired
            a, b = dose.expand(ours), dose.expand(theirs)
            pairs = {seed: (b, 0 if b.endswith(FLOOR) else seed) for row, seed in tables if row == a}
            seeds = [seed for seed, other in pairs.items() if other in tables]
            for task, known in of_tasks.items() if seeds else ():
                if "." in task and side not in IN_PARTS:
                    continue
                gain = _stacked([known[a, seed] - known[pairs[seed]] for seed in seeds])
                found |= _named(f"{side}.{name}.{task}", gain)
                if counted:
                    of_captions.setdefault((f"{dose[1]}{dose[3]}", task), []).append((seeds, gain))
        for (captions, task), doses in of_captions.items():
            common = [seed for seed in doses[0][0] if all(seed in seeds for seeds, _ in doses)]
            if common:
                mean = _mean([gain.of([seeds.index(seed) for seed in common]) for seeds, gain in doses])
                found |= _named(f"{side}.{captions}.{task}", mean)
                if side in ("none", "wrong") and "." not in task and not captions.endswith("1"):
                    together.append(f"note.gain.{side}.{captions}.{task}.equivalence")
    corrected = holm([found[name].value for name in together])
    return found | {f"{name}.corrected": Score(value=p) for name, p in zip(together, corrected, strict=True)}


def _named(place: str, gain: Gain) -> dict[str, Score]:
    whole = place.count(".") == 2  # parts of the pairs have no test
    return {f"note.gain.{place}{end}": score for end, score in gain.scores().items() if whole or not end}


def _correlations(
    tables: Mapping[tuple[str, int], PairTable], ratings: Mapping[str, float], genres: Sequence[str]
) -> dict[str, dict[tuple[str, int], Gain]]:
    """Return Pearson's r by task, and by the row and the seed, as what is gained above 0."""
    found: dict[str, dict[tuple[str, int], Gain]] = {}
    in_sts: dict[tuple[str, str], dict[tuple[str, int], Gain]] = {}
    for key, pairs in tqdm(next(iter(tables.values())).subtasks.items(), desc="tasks", unit="task"):
        if key[1] == "trained":
            continue
        whole = _of_part(tables, key, np.ones(len(pairs), bool), "\t".join(key))
        if in_mean(key):
            in_sts[key] = whole
            continue
        found[key[0]] = whole
        kinds = np.array(genres) if key[0] == "STSBenchmark" and genres else np.full(len(pairs), "captions")
        names = np.unique(kinds).tolist()
        chosen = {genre: kinds == genre for genre in names if len(names) > 1}
        chosen |= thirds(pairs, ratings, kinds == "captions")
        parts = {name: _of_part(tables, key, part, name) for name, part in chosen.items()}
        found |= {f"{key[0]}.{name}": part for name, part in parts.items()}
        if "concrete" in parts:
            found[f"{key[0]}.rise"] = {one: parts["concrete"][one] - parts["abstract"][one] for one in tables}
    parts_of_sts = {
        "sts": list(in_sts),
        "sts.captions": [key for key in in_sts if key in IMAGE_CAPTIONS],
        "sts.others": [key for key in in_sts if key not in IMAGE_CAPTIONS],
    }
    for name, keys in parts_of_sts.items():
        if keys:
            found[name] = {one: _mean([in_sts[key][one] for key in keys]) for one in tables}
    return found


def thirds(pairs: ScoredPairs, ratings: Mapping[str, float], among: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Return the third of the pairs with the least concrete words, the middle one, and that with the most concrete.

    A pair counts with the mean rating of all rated words of both sentences; pairs without one, and those that are not
    ``among`` the pairs to divide, are in no third.
    """
    means = [mean_rating(ratings, both)["mean"] for both in zip(pairs.first, pairs.second, strict=True)]
    rated = np.where(among, np.array([np.nan if one is None else one for one in means], float), np.nan)
    if np.isnan(rated).all():
        return {}
    low, high = np.nanquantile(rated, [1 / 3, 2 / 3])
    return {"abstract": rated <= low, "middle": (rated > low) & (rated <= high), "concrete": rated > high}


def _of_part(
    tables: Mapping[tuple[str, int], PairTable], key: tuple[str, str], chosen: NDArray[np.bool_], name: str
) -> dict[tuple[str, int], Gain]:
    """Return Pearson's r on chosen pairs of a subtask, of each row and seed."""
    gold = next(iter(tables.values())).subtasks[key].gold[chosen]
    scores = np.array([table.subtasks[key].score[chosen] for table in tables.values()])
    drawn = resampled_pearson(gold, scores, samples=SAMPLES, seed=0, name=name)
    values = [pearson(gold, own) or 0.0 for own in scores]
    return {one: Gain(np.array([r]), row[None]) for one, r, row in zip(tables, values, drawn, strict=True)}


def main() -> None:
    """Write the gains."""
    (benchmark,), _ = read_parts([BENCHMARK], Path(sys.argv[2]))
    tables = {}
    for path in sorted(Path(sys.argv[3]).glob("*.parquet")):
        name, _, seed = path.stem.rpartition(".")
        tables[name, int(seed)] = read_pairs(path)
    if next(iter(tables.values())).subtasks[BENCHMARK, WHOLE].first != benchmark.pairs.first:
        raise SystemExit(f"{sys.argv[2]}: its pairs of {BENCHMARK} are not those of the runs, whose genres it has")
    scores = scores_of(tables, read_ratings(sys.argv[1]), benchmark.genres or ())
    row = Row(
        topic="doses", name="gains", recipe="flickr8k-ngrams", private={"data/raw/features": SOURCE},
        note="Made by `study/doses.py` of the runs of the other rows",
        runs=[Run(seeds=sorted({seed for _, seed in tables}), scores=scores)],
    )  # fmt: skip
    print(write_row(Path(), row))


if __name__ == "__main__":
    main()
