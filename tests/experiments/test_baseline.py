"""What experiments would not see is told before anything runs."""

from __future__ import annotations

import importlib
import json
import re
import sys
from dataclasses import replace

import pytest
from swept_project import STAGES, sections

from pipeline.experiments import baseline, grid
from pipeline.experiments.grid import Grid, Trial
from pipeline.pipelines import Pipeline
from sightword.errors import SweepError
from sightword.io import yaml_reader


def runs(project, **values):
    wanted = Grid.model_validate({"name": "g", "blocks": [{"train.margin": [0.1]}], **values})
    _, base, _ = grid.base_params(wanted, project.folder)
    return grid.expand(wanted, base, "g.yaml")


def find(project, folder=""):
    return baseline.find_baseline(Pipeline(project.folder, folder))


def check(project, **values):
    find(project).check(runs(project, **values))


def test_no_repository_and_no_commit_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "a").mkdir()
    with pytest.raises(SweepError, match=r"not a git repository.*git init"):
        baseline.find_baseline(Pipeline(tmp_path / "a"))
    baseline.git(tmp_path / "a", "init", "-q")
    with pytest.raises(SweepError, match=r"no commit .*git commit"):
        baseline.find_baseline(Pipeline(tmp_path / "a"))


@pytest.mark.parametrize("name", ["dvc.yaml", "data/raw/sample/new.yaml"])
def test_changes_that_experiments_would_not_see_are_told(project, name):
    for other in ("README.md", "metrics.json", "dvc.lock"):
        project.write(other, "changed")
    check(project)
    path = project.folder / name
    path.write_text((path.read_text() if path.exists() else "") + "\n# changed\n")
    with pytest.raises(SweepError, match=rf"(?s){name}.*Commit them") as raised:
        check(project)
    assert "no commit" in str(raised.value)
    project.git("add", "-A")
    with pytest.raises(SweepError, match=name):
        check(project)
    project.commit()
    check(project)


def test_new_scorings_stop_no_sweep_and_a_ledger_that_git_lacks_does(project):
    project.write("dvc.yaml", STAGES.replace("deps: [metrics.json]", "deps: [metrics.json, scorings.csv]"))
    project.git("add", "-A")
    project.commit()
    with pytest.raises(SweepError, match=r"scorings\.csv: not there, and neither git nor DVC tracks it"):
        check(project)
    project.write("scorings.csv", "")
    project.git("add", "-A")
    project.commit()
    project.write("scorings.csv", "more")
    check(project)


def test_data_that_is_tracked_by_nothing_is_told_with_what_to_do(project):
    own = {"set": {"corpus.path": "data/raw/own"}}
    with pytest.raises(SweepError, match=r"data/raw/own: not there"):
        check(project, **own)
    (project.folder / "data/raw/own").mkdir()
    project.write("data/raw/own/captions.csv", "")
    with pytest.raises(SweepError, match=r"tracked by neither.*`dvc add data/raw/own`, `git add data/raw/own\.dvc`"):
        check(project, **own)
    project.write("data/raw/own.dvc", "outs:\n- md5: 0\n  path: own\n")
    with pytest.raises(SweepError, match="tracked by neither"):
        check(project, **own)  # the file is in no commit yet
    project.commit()
    check(project, **own)
    check(project, blocks=[{"corpus.path": ["data/raw/own", "data/raw/own/captions.csv"]}])
    with pytest.raises(SweepError, match=r"data/raw/other: not there"):
        check(project, blocks=[{"corpus.path": ["data/raw/own", "data/raw/other"]}])


def test_a_project_in_a_folder_of_its_repository(build):
    project = build("models/sightword")
    found = find(project)
    assert found.below == "models/sightword/"
    check(project)
    project.write("code.py", "changed")
    with pytest.raises(SweepError, match=r"\n  code\.py"):
        check(project)


def test_a_further_pipeline_needs_the_code_and_parameters_of_the_pipeline_it_reads(project, monkeypatch):
    monkeypatch.setitem(sys.modules, "stages.second.report", importlib.import_module("stages.report"))
    first, _, report = STAGES.partition("  report:\n")
    second = "stages:\n  report:\n    wdir: ..\n" + report.replace("[metrics.json]", "[metrics.json, second.py]")
    params = (project.folder / "params.yaml").read_text()
    (project.folder / "second").mkdir()
    for name, text in (
        ("dvc.yaml", first), ("params.yaml", sections(params, first)), ("second.py", ""),
        ("second/dvc.yaml", second), ("second/params.yaml", sections(params, second)),
    ):  # fmt: skip
        project.write(name, text)
    project.commit()
    wanted = {"name": "g", "blocks": [{"report.title": ["a"]}]}
    base = yaml_reader.parse((project.folder / "second/params.yaml").read_text(), "")
    further = grid.expand(Grid.model_validate(wanted), base, "g.yaml")

    def check_further():
        find(project, "second").check(further)

    check_further()
    project.write("second.py", "changed")
    check(project)  # the first pipeline does not read it
    with pytest.raises(SweepError, match=r"\n  second\.py"):
        check_further()
    project.commit()
    for name in ("code.py", "params.yaml"):
        project.write(name, (project.folder / name).read_text() + "\n# changed\n")
        with pytest.raises(SweepError, match=rf"\n  {name}"):
            check_further()
        project.commit()


def test_encoders_of_other_training_runs_are_there(project):
    (project.folder / "data/raw/beside/here").mkdir(parents=True)
    project.write("data/raw/beside/here/encoder.json", "")
    project.commit()

    def check_beside(*names):
        wanted = [replace(run, params={**run.params, "select": {"beside": names}}) for run in runs(project)]
        find(project).check(wanted)

    check_beside()
    check_beside("here")
    project.write(
        "data/raw/beside/elsewhere.dvc", "outs:\n- {path: elsewhere, md5: 0123456789abcdef0123456789abcdef.dir}\n"
    )
    project.commit()
    check_beside("here", "elsewhere")  # DVC fetches it
    with pytest.raises(SweepError, match=r"^data/raw/beside/gone: does not exist \(select\.beside\)\. Copy"):
        check_beside("here", "gone")
    for name, file in (("empty", "README.md"), ("ignored", "encoder.json")):
        (project.folder / f"data/raw/beside/{name}").mkdir()
        project.write(f"data/raw/beside/{name}/{file}", "")
    project.write(".gitignore", "/data/raw/beside/ignored\n")
    project.commit()
    with pytest.raises(SweepError, match=r"^data/raw/beside/empty: is no folder of an encoder"):
        check_beside("empty")
    with pytest.raises(SweepError, match=r"^data/raw/beside/ignored: tracked by neither git nor DVC .* `dvc add"):
        check_beside("ignored")


@pytest.mark.parametrize(
    ("folder", "train", "key"),
    [
        ("entailment", {"start": "mine"}, "train.start"),
        (
            "grounded",
            {"run": ["own"], "common": {"start": "scratch"}, "scenarios": {"own": {"start": "mine"}, "other": {}}},
            "train.scenarios.own.start",
        ),
    ],
)
def test_the_encoders_that_a_further_pipeline_starts_from_are_there(project, folder, train, key):
    (project.folder / folder).mkdir()
    project.write(f"{folder}/dvc.yaml", "stages:\n  train: {wdir: .., cmd: none, deps: [code.py], params: [train]}\n")
    project.write(f"{folder}/params.yaml", "train: {}\n")
    project.commit()
    run = Trial("a", {}, {"train": {"encoders": "data/raw/starts"} | train})
    here = find(project, folder)
    with pytest.raises(SweepError, match=rf"^data/raw/starts/mine: does not exist \({re.escape(key)}\)\. Copy"):
        here.check([run])
    (project.folder / "data/raw/starts/mine").mkdir(parents=True)
    project.write("data/raw/starts/mine/encoder.json", "")
    project.commit()
    find(project, folder).check([run])


def test_experiments_are_known_by_name_and_parameters(project):
    here = find(project)
    same, other = runs(project, blocks=[{"train.margin": [0.1, 0.3]}])
    assert here.done([same, other]) == (set(), [])
    project.write("params.yaml", json.dumps(same.params))
    project.git("commit", "-qam", "experiment")
    commit = project.git("rev-parse", "HEAD").strip()
    for run in (same, other):
        project.git("update-ref", f"{here.refs}{run.name}", commit)
    assert here.done([same, other]) == ({same.name}, [other.name])
    assert find(project).done([same]) == (set(), [])  # another commit
