"""The stages evaluate and report on a small project: their files, equal bytes, and messages."""

from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest
from grounded_project import encoder, write_project

from pipeline.cli import main
from sightword.errors import ReportError
from sightword.evaluation.semantics.results import read_pairs
from sightword.grounded.comparing import KEYS, compare, read_runs
from sightword.grounded.judging.settings import GroundedSettings, JudgeSettings
from sightword.io.files import read_json
from stages.grounded import evaluate, report


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def settings(senteval, ratings):
    return JudgeSettings(
        resamples=100, data=str(senteval), tasks=["STSBenchmark", "SICKRelatedness"], transfer=["MR", "MRPC"],
        kfold=2, ratings=str(ratings), neighbours=["a red dog"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory, settings):
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SIGHTWORD_DEVICE", "cpu")
        write_project(settings, GroundedSettings(resamples=100))
        yield folder


def test_judge_writes_the_scores_and_the_tables_of_one_encoder(project):
    found = files(project / "data/grounded/cg-pg-0")
    tables = ("neighbours", "pairs", "relatedness", "structure", "transfer")
    assert set(found) == {"SHA256SUMS", "evaluate.json", *(f"{name}.parquet" for name in tables)}
    metrics = read_json(project / "metrics/grounded/cg-pg-0/evaluate.json")
    assert (metrics["scenario"], metrics["seed"], metrics["judged"]) == ("cg-pg", 0, "grounded")
    assert json.loads(found["evaluate.json"]) == {"schema": 1, **metrics}
    assert set(metrics["spaces"]["grounded"]["structure"]) == {"dev", "test"}
    subtasks = read_pairs(project / "data/grounded/cg-pg-0/pairs.parquet").subtasks
    assert list(subtasks) == [("STSBenchmark", "cosine"), ("SICKRelatedness", "cosine")]


def test_the_summary_has_each_scenario_and_measure(project):
    found = read_json(project / "metrics/grounded/summary.json")
    names = {key.removesuffix("_sd") for key in found}
    assert names == {f"{scenario}.{name}" for scenario in ("t", "cg-pg") for name in KEYS}
    assert len(found) == 2 * len(names)
    metrics = [read_json(project / f"metrics/grounded/t-{seed}/evaluate.json") for seed in (0, 1)]
    scores = [one["spaces"]["sentence"]["structure"]["dev"]["c_inter"] for one in metrics]
    assert found["t.c_inter"] == pytest.approx(np.mean(scores), abs=1e-6)


def test_the_same_inputs_give_the_same_bytes(project, settings):
    before = files(project)
    evaluate.work(settings, scenario="cg-pg", seed=1)
    report.work(GroundedSettings(resamples=100), run=["t", "cg-pg"], seeds=[0, 1])
    assert files(project) == before


def test_two_runs_are_compared_scenario_by_scenario(project, tmp_path, monkeypatch, capsys):
    for name in ("ours", "theirs"):
        shutil.copytree(project / "data/grounded", tmp_path / name / "data/grounded")
    for seed in (0, 1):  # B's cg-pg has the results of t
        shutil.rmtree(tmp_path / f"theirs/data/grounded/cg-pg-{seed}")
        shutil.copytree(project / f"data/grounded/t-{seed}", tmp_path / f"theirs/data/grounded/cg-pg-{seed}")
    shutil.rmtree(tmp_path / "theirs/data/grounded/t-1")
    (tmp_path / "theirs/data/grounded/t-1").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "ours", "theirs", "--csv", "--samples", "100"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    same = [row for row in rows if row["scenario"] == "t"]
    assert {float(row["difference"]) for row in same} == {0.0}
    assert {row["better"] for row in rows if float(row["holm_p"]) >= 0.05} <= {"", "equal"}
    expected = compare(read_runs(project / "data/grounded", ["t", "cg-pg"], [0, 1]), "t", resamples=100)
    found = {row["measure"]: row for row in rows if row["scenario"] == "cg-pg"}
    assert set(found) == {test.key for test in expected}
    for test in expected:
        row, unit = found[test.key], 1 if test.low is None else 100
        assert float(row["difference"]) == pytest.approx(unit * test.difference)
        assert float(row["a"]) - float(row["b"]) == pytest.approx(unit * test.difference)
        assert float(row["test_p"]) == pytest.approx(test.p)


def test_results_on_other_pairs_and_missing_results_are_refused(project, settings, tmp_path):
    with pytest.raises(ReportError, match="other-0"):
        read_runs("data/grounded", ["other"], [0])
    with pytest.raises(ReportError, match="no scenario was run"):
        read_runs("data/grounded", [], [0])
    encoder("t", 7).save("models/grounded/t-7")
    evaluate.work(settings.model_copy(update={"resamples": 0}), scenario="t", seed=7)
    with pytest.raises(ReportError, match="t-7: was judged on other numbers of resamples than t-0"):
        read_runs("data/grounded", ["t"], [0, 7])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resamples": 1}, "too few for an interval; 100 or more, or 0 for none"),
        ({"tasks": ["MR"]}, "no such task: 'MR'"),
        ({"transfer": ["TREC"]}, "no such transfer task: 'TREC'"),
        ({"neighbours": [" "]}, "an entry is empty or comes twice"),
    ],
)
def test_wrong_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        JudgeSettings(**change)
