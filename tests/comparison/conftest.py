"""A project with two commits whose results differ, run by DVC: its only stage copies finished results into place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from finished_run import write_run
from made_once import made_once
from tiny_project import TinyProject

from sightword.io.files import write_table

OUTS = (
    *("data/captions", "data/resized", "data/retrieval", "data/semantics", "models/encoder"),
    *("plots/epochs", "plots/semantics", "plots/train"),
)
METRICS = tuple(f"metrics/{name}.json" for name in ("retrieval", "select", "semantics", "train"))
COPY = """\
import pathlib, shutil
source = pathlib.Path("kept") / pathlib.Path("params.yaml").read_text().split()[-1]
for name in {outs}:
    shutil.copytree(source / name, name)
for name in {metrics}:
    pathlib.Path(name).parent.mkdir(exist_ok=True)
    shutil.copy(source / name, name)
"""


def project_with_two_runs(folder: Path) -> TinyProject:
    """``good`` and ``poor`` are tags; ``poor`` is checked out, and `main` too."""
    project = TinyProject(folder, run=False)
    for name in ("good", "poor"):
        write_run(folder / "kept" / name)
    worsen(folder / "kept" / "poor")
    for name in ("good", "poor"):
        count_recalls(folder / "kept" / name)
    project.write("stages/copy.py", COPY.format(outs=OUTS, metrics=METRICS))
    outs, metrics = (
        "".join(f"      - {name}{more}\n" for name in names)
        for names, more in ((OUTS, ""), (METRICS, ": {cache: false}"))
    )
    project.write(
        "dvc.yaml",
        "stages:\n  copy:\n    cmd: python stages/copy.py\n    params: [train]\n    deps: [stages/copy.py]\n"
        f"    outs:\n{outs}    metrics:\n{metrics}",
    )
    project.write(".gitignore", "".join(f"/{name}\n" for name in OUTS) + "/kept\n/report\n/runs/*.json\n")
    project.do("git", "init", "-q", "-b", "main")
    project.do("dvc", "init", "-q")
    for name in ("good", "poor"):
        project.write("params.yaml", f"train:\n  kind: {name}\n")
        project.do("dvc", "repro", "-q")
        project.commit(f"a {name} run")
        project.do("git", "tag", name)
    shutil.rmtree(folder / "kept")
    return project


def worsen(run: Path) -> None:
    """Nothing right comes first any more, scores of pairs are noisier, and the metrics say so."""
    top = pq.read_table(run / "data/retrieval/top.parquet")
    wrong = pc.and_(top["right"], pc.equal(top["position"], 1))
    column = pc.and_(top["right"], pc.invert(wrong))
    write_table(
        run / "data/retrieval/top.parquet", top.set_column(top.schema.get_field_index("right"), "right", column)
    )
    pairs = pq.read_table(run / "data/semantics/pairs.parquet")
    noisy = pairs["score"].to_numpy() + np.random.default_rng(1).normal(0, 0.4, len(pairs))
    place = pairs.schema.get_field_index("score")
    write_table(
        run / "data/semantics/pairs.parquet", pairs.set_column(place, pairs.schema.field(place), pa.array(noisy))
    )


def count_recalls(run: Path) -> None:
    """Make the metrics those of the lists of answers."""
    table = pq.read_table(run / "data/retrieval/top.parquet").to_pylist()
    full: dict[str, dict[str, float]] = {}
    for direction in ("caption_to_image", "image_to_caption"):
        first: dict[tuple[str, int], int] = {}
        for row in (row for row in table if row["direction"] == direction):
            rank = row["position"] if row["right"] else 11
            query = (row["query_image"], row["query_caption"])
            first[query] = min(rank, first.get(query, 11))
        ranks = np.array(list(first.values()))
        full[direction] = {f"r{k}": 100.0 * float((ranks <= k).mean()) for k in (1, 5, 10)}
        full[direction] |= {"median_rank": float(np.median(ranks)), "queries": len(ranks)}
    (run / "metrics/retrieval.json").write_text(
        json.dumps({"test": {"full": full, "short_queries": {"one_word": {"map": 27.5}}}})
    )


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> TinyProject:
    """A project with two runs; whoever changes it takes a copy."""
    made = TinyProject(made_once(tmp_path_factory, "two", project_with_two_runs), run=False)
    return made.copy(tmp_path_factory.mktemp("two") / "project")


@pytest.fixture
def project(ran, tmp_path, monkeypatch) -> TinyProject:
    """A copy of one's own, with the user in it."""
    copy = ran.copy(tmp_path / "project")
    monkeypatch.chdir(copy.folder)
    return copy
