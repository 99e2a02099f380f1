"""Facts of a run are found under the entry that DVC writes for it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from pipeline.lineage import facts
from pipeline.lineage.facts import Recorder, read_facts
from pipeline.lineage.lock import read_lock
from pipeline.machine import Machine


@pytest.fixture
def here(tmp_path):
    return Machine(device="cpu", workers=1, threads=3, store=tmp_path / "store", scratch=tmp_path / "scratch")


@pytest.fixture(autouse=True)
def _not_under_dvc(monkeypatch):
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)


def keys(project):
    text = (project.folder / "dvc.lock").read_text()
    return {name: entry.key for name, entry in read_lock(text).entries.items()}


@pytest.mark.parametrize("stage", ["first", "second", "third"])
def test_the_key_is_that_of_the_entry_in_the_lock(project, here, stage):
    path = Recorder(stage, project.folder, here).finish({"weights": "random:0"})
    assert path is not None
    assert path.name == f"{keys(project)[stage]}.json"
    facts = json.loads(path.read_text())
    assert (facts["stage"], facts["threads"], facts["notes"]) == (stage, 3, {"weights": "random:0"})
    assert facts["commit"] == project.do("git", "rev-parse", "HEAD").strip()
    assert facts["uncommitted"] == []
    assert facts["packages"]["numpy"]
    assert (here.store / "runs" / path.name).read_bytes() == path.read_bytes()
    assert read_facts(keys(project)[stage], [project.folder / "runs"]) == facts


def test_paths_with_parameters_in_them_and_data_added_to_dvc_count(project, here):
    project.edit("params.yaml", "first:\n", "first:\n  path: data/raw/own\n")
    project.edit("dvc.yaml", "deps: [data/raw/in.txt,", 'deps: [data/raw/in.txt, "${first.path}",')
    project.write("data/raw/own/a.txt", "a")
    project.do("dvc", "add", "-q", "data/raw/own")
    project.do("dvc", "repro", "-q")
    path = Recorder("first", project.folder, here).finish()
    assert path is not None
    assert path.name == f"{keys(project)['first']}.json"


@pytest.mark.parametrize("text", ["outs:\n- hash: md5\n  path: later\n", "outs:\n", "", "- 1\n"])
def test_data_that_dvc_has_no_hash_of_is_no_hindrance(project, here, text):
    """As of an import that was not downloaded: the stage does not read it."""
    project.write("data/raw/later.dvc", text)
    path = Recorder("first", project.folder, here).finish()
    assert path is not None
    assert path.name == f"{keys(project)['first']}.json"


def test_what_was_not_committed_is_named(project, here):
    project.write("stages/second.py", (project.folder / "stages/second.py").read_text() + "# more\n")
    path = Recorder("second", project.folder, here).finish()
    assert json.loads(path.read_text())["uncommitted"] == ["stages/second.py"]


def test_the_first_facts_stay_in_the_store_and_the_last_in_the_project(project, here):
    first = Recorder("second", project.folder, here).finish({"run": 1})
    Recorder("second", project.folder, here).finish({"run": 2})
    assert json.loads(first.read_text())["notes"] == {"run": 2}
    shared = here.store / "runs" / first.name
    assert json.loads(shared.read_text())["notes"] == {"run": 1}
    assert not shared.stat().st_mode & stat.S_IWUSR


def test_an_experiment_in_a_folder_of_its_own_leaves_its_facts_in_the_project(project, here, tmp_path, monkeypatch):
    (tmp_path / "parent").mkdir()
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "parent"))
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    path = Recorder("second", project.folder, here).finish()
    assert path.parent == tmp_path / "parent/runs"
    assert json.loads(path.read_text())["experiment"] == "wide"


@pytest.mark.parametrize("wrong", ["outs", "dvc.yaml", "params.yaml", "store", "a .dvc file"])
def test_a_run_is_not_lost_because_its_facts_cannot_be_kept(project, here, caplog, wrong):
    match wrong:
        case "outs":
            (project.folder / "models/encoder/weights").unlink()
            (project.folder / "models/encoder").rmdir()
        case "dvc.yaml":
            project.edit("dvc.yaml", "  second:", "  other:")
        case "params.yaml":
            project.write("params.yaml", "first: [")
        case "a .dvc file":
            (project.folder / "data/raw/x.dvc").write_bytes(b"\xff")
        case "store":
            here.store.write_text("a file, not a folder")
    assert Recorder("second", project.folder, here).finish() is None
    assert "the facts of this run are not kept" in caplog.text


def test_facts_that_another_version_wrote_are_not_half_understood(project, tmp_path):
    """As in a store that newer versions use too."""
    key = keys(project)["third"]
    project.write(f"runs/{key}.json", json.dumps({"schema": 2, "entry": key, "machine": {"host": "lab"}}))
    for what in (["third"], ["--verify", "third"]):
        done = project.audit(*what)
        assert done.returncode == 0, done.stderr
        assert "another version of Sightword" in done.stderr


def test_facts_of_another_run_under_this_name_are_not_believed(tmp_path, caplog):
    (tmp_path / "ab.json").write_text('{"entry": "cd"}')
    assert read_facts("ab", [tmp_path / "none", tmp_path]) is None
    assert "facts of another run" in caplog.text


def test_kinds_of_processors_that_share_a_name_are_told_apart(tmp_path, monkeypatch):
    text = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: {}\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel\t\t: 99\n"
    monkeypatch.setattr(facts, "_read", lambda path: text.format(1))
    one = facts.processor()
    monkeypatch.setattr(facts, "_read", lambda path: text.format(17))
    assert (one, facts.processor()) == ("AMD EPYC (family 25, model 1)", "AMD EPYC (family 25, model 17)")
    monkeypatch.setattr(facts, "_read", lambda path: Path("/no such file").read_text())
    assert facts.processor()
