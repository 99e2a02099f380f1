"""Makes the rows of the doses of pictures and captions, and what right pictures gain, from a sweep's experiments.

``python -m tools.doses PROJECT`` in the repository's folder reads the experiments of recipes/grid-doses.yaml and
grid-doses-floor.yaml in a project. It adds each to its row, such as ``results/doses/500-1-captions-only.json`` for 500
pictures with one caption, unless the row has the seed; and writes ``results/doses/gains.json``: for each dose, and for
the mean of all doses with the same number of captions, Pearson's r with right pictures minus that without pictures,
with wrong ones, of tf-idf, and of two captions without pictures, seed by seed.

A gain's variance is that over pairs of sentences (:mod:`sightword.statistics.bootstrap`, the same draws for all seeds
and doses) plus that over seeds, where there are several: of one seed, interval and tests are over pairs alone, and too
sure. Both take the normal distribution, which with few seeds makes them a little too sure as well.
``equivalence`` is the larger p of two one-sided tests (Schuirmann 1987) that the gain is within :data:`BOUND` of 0.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from tqdm import tqdm

from pipeline.comparison.correlations import PAIRS
from pipeline.lineage import documents
from pipeline.lineage.cache import Cache
from pipeline.lineage.locks import lock_at
from pipeline.lineage.repository import Commit, Repository
from pipeline.lineage.revision import take_out
from pipeline.results.addition import extended, find_run
from pipeline.results.records import Row, Run, Score, path_of, read_row, write_row
from sightword.evaluation.semantics.pair_table import PairTable, read_pairs
from sightword.evaluation.semantics.published import in_mean
from sightword.statistics.bootstrap import pearson_differences
from sightword.statistics.inference import pearson
from tools.partition import PRIVATE

Doubles = NDArray[np.float64]
ENDINGS = {
    ("real", True): "", ("none", True): "-captions-only", ("shuffled", True): "-wrong-pictures",
    ("real", False): "-pictures-only",
}  # fmt: skip
"""What a row's name ends with, by ``train.pictures`` and ``train.second_caption``."""
FLOOR = "-tf-idf"
DOSE = re.compile(r"(\d+)-(\d+)")
OF_SWEEPS = re.compile(r"doses-(?!passes-)")
"""The names of the experiments: those of grid-doses-passes have the same doses, and other steps."""
AGAINST = {
    "none": r"\g<0>-captions-only", "wrong": r"\g<0>-wrong-pictures", "floor": rf"\g<0>{FLOOR}",
    "paraphrase": r"\1-2-captions-only",
}  # fmt: skip
"""What right pictures stand beside: the name of the other row by that of the dose. A paraphrase is a second caption of
each picture, without the pictures."""
KEPT = (
    r"^select\.ensemble_r10$|^retrieval\.dev\.full\.\w+\.r10$|^summary\.sts$"
    r"|^semantics\.(STSBenchmark|SICKRelatedness)\.cosine(\.unseen)?\.pearson$"
)
"""The scores that rows have."""
BOUND = 0.005
"""Half a point of 100 r."""
SAMPLES = 2000


class Gain(NamedTuple):
    """A gain, its values in resamples of the pairs, and the variance of the gain over seeds: 0 for one seed."""

    value: float
    resamples: Doubles
    over_seeds: float

    def scores(self) -> dict[str, Score]:
        """Return the gain with its 95 % interval, and the p of equivalence."""
        error = float(np.sqrt(np.var(self.resamples, ddof=1) + self.over_seeds))
        half = float(norm.ppf(0.975)) * error
        ends = {"low": round(self.value - half, 6), "high": round(self.value + half, 6)}
        p = float(norm.sf((BOUND - abs(self.value)) / error))
        return {"": Score(value=round(self.value, 6), **ends), ".equivalence": Score(value=round(p, 6))}


def main() -> None:
    """Add the experiments of a project to their rows, and write the gains."""
    project = Path(sys.argv[1])
    tables: dict[tuple[str, int], PairTable] = {}
    with Repository(project) as repository:
        known = [one for one in repository.experiments() if OF_SWEEPS.match(one.experiment or "")]
        for commit in tqdm(known, desc="runs", unit="run"):
            name, seed = _place(documents.parse(_text(repository, commit), "params.yaml"))
            key = f"doses/{name}"
            path = path_of(Path(), key)
            if not path.exists() or seed not in read_row(path).seeds:
                found = find_run(project, str(commit.experiment), scores=KEPT)
                write_row(Path(), extended(Path(), key, found, private=PRIVATE))
            tables[name, seed] = _pairs(project, repository, commit)
    seeds = sorted({seed for _, seed in tables})
    row = Row(
        topic="doses", name="gains", recipe="flickr8k-ngrams", private=PRIVATE,
        note="Made by `tools/doses.py` of the runs of the other rows", runs=[Run(seeds=seeds, scores=gains(tables))],
    )  # fmt: skip
    sys.stdout.write(f"{write_row(Path(), row)}\n")


def _text(repository: Repository, commit: Commit) -> str:
    return (repository.read(commit.sha, "params.yaml") or b"").decode()


def _place(params: Any) -> tuple[str, int]:
    """Return the name of an experiment's row, and its seed."""
    captions, train = params["captions"], params["train"]
    ending = FLOOR if train["cell"] == "tfidf" else ENDINGS[train["pictures"], train["second_caption"]]
    return f"{captions['train_pictures']}-{captions['train_captions']}{ending}", int(train["seed"])


def _pairs(project: Path, repository: Repository, commit: Commit) -> PairTable:
    with tempfile.TemporaryDirectory() as folder:
        lock = lock_at(repository, commit)
        take_out(
            [PAIRS.as_posix()], Path(folder), lock=lock, commit=commit, cache=Cache(project), repository=repository
        )
        return read_pairs(Path(folder) / PAIRS)


def gains(tables: Mapping[tuple[str, int], PairTable]) -> dict[str, Score]:
    """Return the gains of right pictures, by what they stand beside, dose or number of captions, and task.

    Args:
        tables: the scores of pairs, by the name of the row and the seed.
    """
    found: dict[str, Score] = {}
    doses = filter(None, (DOSE.fullmatch(name) for name in dict.fromkeys(name for name, _ in tables)))
    known = [(dose[0], dose[2], {against: dose.expand(name) for against, name in AGAINST.items()}) for dose in doses]
    for against in AGAINST:
        of_task: dict[tuple[str, str], list[Gain]] = {}
        for dose, captions, others in tqdm(known, desc=against, unit="dose"):
            beside = others[against]
            if against == "paraphrase" and captions != "1":
                continue
            sides = [
                (table, other)
                for (name, seed), table in tables.items()
                if name == dose and (other := tables.get((beside, 0 if beside.endswith(FLOOR) else seed)))
            ]
            for task, gain in _gains(sides) if sides else ():
                found |= _named(f"{against}.{dose}.{task}", gain)
                of_task.setdefault((captions, task), []).append(gain)
        for (captions, task), several in of_task.items():
            found |= _named(f"{against}.{captions}.{task}", _mean(several))
    return found


def _named(place: str, gain: Gain) -> dict[str, Score]:
    return {f"note.gain.{place}{end}": score for end, score in gain.scores().items()}


def _gains(sides: list[tuple[PairTable, PairTable]]) -> Iterator[tuple[str, Gain]]:
    """Yield the gains of STS Benchmark, SICK, and the mean of the subtasks of STS12 to STS16, from a pair a seed."""
    every = {key: _differences(sides, key) for key in sides[0][0].subtasks if key[1] != "trained"}
    yield from ((key[0], _of_seeds(*one)) for key, one in every.items() if not in_mean(key))
    in_sts = [one for key, one in every.items() if in_mean(key)]
    yield "sts", _of_seeds(*(np.mean(part, axis=0) for part in zip(*in_sts, strict=True)))


def _differences(sides: list[tuple[PairTable, PairTable]], key: tuple[str, str]) -> tuple[Doubles, Doubles]:
    """Return a subtask's difference for each seed (S,), and the mean over seeds in each resample (R,)."""
    series = [(one.subtasks[key].gold, one.subtasks[key].score, other.subtasks[key].score) for one, other in sides]
    seeds = np.array([(pearson(gold, ours) or 0.0) - (pearson(gold, theirs) or 0.0) for gold, ours, theirs in series])
    drawn = [pearson_differences(*one, samples=SAMPLES, seed=0, name="\t".join(key)) for one in series]
    return seeds, np.mean(drawn, axis=0)


def _of_seeds(seeds: Doubles, resamples: Doubles) -> Gain:
    over_seeds = float(np.var(seeds, ddof=1)) / len(seeds) if len(seeds) > 1 else 0.0
    return Gain(float(np.mean(seeds)), resamples, over_seeds)


def _mean(several: Sequence[Gain]) -> Gain:
    """Return the mean gain of several doses, whose seeds are independent."""
    over_seeds = sum(one.over_seeds for one in several) / len(several) ** 2
    resamples: Doubles = np.mean([one.resamples for one in several], axis=0)
    return Gain(float(np.mean([one.value for one in several])), resamples, over_seeds)


if __name__ == "__main__":
    main()
