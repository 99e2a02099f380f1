"""The pipeline of hypernyms through DVC, in a clone in which nothing has run: repro, an audit, a sweep."""

from __future__ import annotations

import json

import pytest
from checkout import Checkout

from pipeline.pipelines import Pipeline

GRID = """\
name: g
base: hypernyms/params.yaml
set: {train.epochs: 1}
blocks:
  - {train.margin: [1.0], train.seed: [0, 1]}
"""


@pytest.mark.full
def test_hypernyms_alone_in_a_fresh_clone(repository, tmp_path):
    clone = Checkout(repository, tmp_path / "clone", tmp_path / "store")
    clone.change("hypernyms/params.yaml", train__epochs=2, train__validate_every=20)
    clone.run("sh", "-c", Pipeline(clone.folder, "hypernyms").command)
    assert json.loads((clone.folder / "metrics/hypernyms/summary.json").read_text())["accuracy"] > 70
    assert (clone.folder / "report/hypernyms/index.html").is_file()
    assert "Data and pipelines are up to date" in clone.run("dvc", "repro", "hypernyms/dvc.yaml").stdout
    assert not (clone.folder / "models/encoder").exists()  # the first pipeline has not run
    clone.run("git", "add", "-A")
    clone.run("git", "commit", "-qm", "hypernyms")
    audited = json.loads(clone.run("sightword", "audit", "metrics/hypernyms/summary.json:accuracy", "--json").stdout)
    assert {stage["record"]["verdict"] for stage in audited["stages"]} == {"run recorded"}
    verified = clone.run("sightword", "audit", "--verify", "hypernyms/dvc.yaml:taxonomy").stdout
    assert "data/hypernyms/taxonomy: the same bytes" in verified
    assert "stages; not run yet: entailment, grounded\n" in clone.run("sightword", "doctor", "--lock").stdout

    (tmp_path / "g.yaml").write_text(GRID)
    swept = clone.run("sightword", "sweep", "../g.yaml", "--slots", "2", SIGHTWORD_THREADS="1")
    header, *rows = swept.stdout.splitlines()
    assert header.split()[:4] == ["margin", "runs", "dev", "accuracy"]
    assert [row.split()[:2] for row in rows] == [["1.0", "2"]]  # a row has all seeds
