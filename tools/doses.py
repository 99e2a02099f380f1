"""Makes the rows of the doses of pictures and captions, and what right pictures gain, from the experiments of sweeps.

``python -m tools.doses RATINGS PROJECT...`` in the repository's folder reads the experiments of recipes/grid-doses.yaml
and of the other grids whose names begin so, in projects. It adds each to its row, such as
``results/doses/500-1-captions-only.json`` for 500 pictures with one caption, unless the row has the seed; and writes
:mod:`tools.dose_gains` to ``results/doses/gains.json``. RATINGS is the file of Brysbaert et al. (2014); the genres of
STS Benchmark are those of the first project's ``data/raw/senteval``.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pipeline.comparison.correlations import PAIRS
from pipeline.lineage import documents
from pipeline.lineage.files import Cache, take_out
from pipeline.lineage.repository import Commit, Repository
from pipeline.results.addition import extended, find_run
from pipeline.results.records import Row, Run, path_of, read_row, write_row
from sightword.evaluation.semantics.pair_table import PairTable, read_pairs
from sightword.evaluation.semantics.settings import SemanticsSettings
from sightword.grounded.judging.concreteness import read_ratings
from sightword.grounded.judging.relatedness import BENCHMARK, WHOLE, read_parts
from tools.dose_gains import FLOOR, scores_of
from tools.partition import PRIVATE

ENDINGS = {
    ("real", True): "", ("none", True): "-captions-only", ("shuffled", True): "-wrong-pictures",
    ("real", False): "-pictures-only",
}  # fmt: skip
"""What a row's name ends with, by ``train.pictures`` and ``train.second_caption``."""
UNTRAINED = 1.0e-6
"""A smaller ``train.rate_max`` leaves the random weights as they are."""
SWEEPS = re.compile(r"doses-((?:gru|passes)-|)")
"""The names of the experiments; what is in the group begins the names of the rows."""
KEPT = (
    r"^select\.ensemble_r10$|^retrieval\.dev\.full\.\w+\.r10$|^summary\.sts$"
    r"|^semantics\.(STSBenchmark|SICKRelatedness)\.cosine(\.unseen)?\.pearson$"
)
"""The scores that rows have."""


def main() -> None:
    """Add the experiments of projects to their rows, and write the gains."""
    ratings = read_ratings(sys.argv[1])
    projects = [*map(Path, sys.argv[2:])]
    (benchmark,), _ = read_parts([BENCHMARK], projects[0] / SemanticsSettings().data)
    tables: dict[tuple[str, int], PairTable] = {}
    for project in projects:
        tables |= _rows(project)
    if next(iter(tables.values())).subtasks[BENCHMARK, WHOLE].first != benchmark.pairs.first:
        raise SystemExit(f"{projects[0]}: its pairs of {BENCHMARK} are not those of the runs, whose genres it has")
    scores = scores_of(tables, ratings, benchmark.genres or ())
    row = Row(
        topic="doses", name="gains", recipe="flickr8k-ngrams", private=PRIVATE,
        note="Made by `tools/doses.py` of the runs of the other rows",
        runs=[Run(seeds=sorted({seed for _, seed in tables}), scores=scores)],
    )  # fmt: skip
    sys.stdout.write(f"{write_row(Path(), row)}\n")


def _rows(project: Path) -> dict[tuple[str, int], PairTable]:
    """Add a project's experiments to their rows; return their scores of pairs by the row's name and the seed."""
    tables = {}
    with Repository(project) as repository:
        for commit in tqdm(repository.experiments(), desc=project.name, unit="run"):
            sweep = SWEEPS.match(commit.experiment or "")
            if not sweep:
                continue
            name, seed = _place(documents.parse(_text(repository, commit), "params.yaml"))
            key = f"doses/{sweep[1]}{name}"
            path = path_of(Path(), key)
            if not path.exists() or seed not in read_row(path).seeds:
                found = find_run(project, str(commit.experiment), scores=KEPT)
                write_row(Path(), extended(Path(), key, found, private=PRIVATE))
            tables[f"{sweep[1]}{name}", seed] = _pairs(project, repository, commit)
    return tables


def _text(repository: Repository, commit: Commit) -> str:
    return (repository.read(commit.sha, "params.yaml") or b"").decode()


def _place(params: Any) -> tuple[str, int]:
    """Return the name of an experiment's row, and its seed."""
    captions, train = params["captions"], params["train"]
    if train["rate_max"] < UNTRAINED:
        return "untrained", int(train["seed"])
    ending = FLOOR if train["cell"] == "tfidf" else ENDINGS[train["pictures"], train["second_caption"]]
    return f"{captions['train_pictures']}-{captions['train_captions']}{ending}", int(train["seed"])


def _pairs(project: Path, repository: Repository, commit: Commit) -> PairTable:
    with tempfile.TemporaryDirectory() as folder:
        lock = repository.lock(commit)
        take_out(
            [PAIRS.as_posix()], Path(folder), lock=lock, commit=commit, cache=Cache(project), repository=repository
        )
        return read_pairs(Path(folder) / PAIRS)


if __name__ == "__main__":
    main()
