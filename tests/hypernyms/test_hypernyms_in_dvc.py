"""The pipeline of hypernyms through DVC, in a clone in which nothing has run: its command, and an audit."""

from __future__ import annotations

import json

import pytest
from checkout import Checkout

from pipeline.pipelines import Pipeline


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
