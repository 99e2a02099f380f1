"""Facts of a run are found under the entry that DVC writes for it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from pipeline.lineage import facts
from pipeline.lineage.evidence import KnownFacts
from pipeline.lineage.facts import Recorder
from pipeline.lineage.lock import read_lock
from sightword import machine
from sightword.errors import LineageError
from sightword.machine import Machine


@pytest.fixture
def here(tmp_path):
    return Machine(
        device="cpu",
        workers=1,
        threads=3,
        store=str(tmp_path / "store"),
        cache=tmp_path / "cache",
        scratch=tmp_path / "scratch",
    )


@pytest.fixture(autouse=True)
def _not_under_dvc(monkeypatch):
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)


def entries(project):
    return read_lock((project.folder / "dvc.lock").read_text()).entries


def keys(project):
    return {name: entry.key for name, entry in entries(project).items()}


@pytest.mark.parametrize("stage", ["first", "second", "third"])
def test_the_key_is_that_of_the_entry_in_the_lock(project, here, stage):
    path = Recorder(stage, project.folder, here).finish({"weights": "random:0"})
    assert path is not None
    assert path.name.partition(".")[0] == keys(project)[stage]
    facts = json.loads(path.read_text())
    assert [facts[name] for name in ("stage", "threads", "engine")] == [stage, 3, "torch"]
    assert facts["notes"] == {"weights": "random:0"}
    assert facts["commit"] == project.do("git", "rev-parse", "HEAD").strip()
    assert facts["uncommitted"] == []
    assert facts["packages"]["numpy"]
    assert (here.local_store / "runs" / path.name).read_bytes() == path.read_bytes()
    entry = entries(project)[stage]
    assert KnownFacts([project.folder / "runs"]).of(entry) == facts | {"entry": entry.key}
    assert facts["outs"] == {out.path: out.md5 for out in entry.outs}


def test_runs_that_differ_only_in_their_outputs_have_facts_of_their_own(project, here):
    """Their names begin with one key, as in the run-cache; the lock decides between them."""
    first = Recorder("second", project.folder, here).finish()
    project.write("models/encoder/weights", "0.60000")
    second = Recorder("second", project.folder, here).finish()
    assert first != second
    assert first.name.partition(".")[0] == second.name.partition(".")[0]
    entry = entries(project)["second"]
    found = KnownFacts([project.folder / "runs"]).of(entry)
    assert found["id"] == first.stem
    assert found["outs"] == {"models/encoder": entry.outs[0].md5}


def test_parameters_and_code_that_change_during_a_run_are_told(project, here):
    recorder = Recorder("first", project.folder, here)
    recorder.check_unchanged()
    project.edit("params.yaml", "factor: 5", "factor: 6")  # of another stage
    project.edit("params.yaml", "# what is varied", "# a comment")
    project.write("stages/second.py", "pass")
    recorder.check_unchanged()
    params = (project.folder / "params.yaml").read_text()
    for text, changed in (
        (params.replace("factor: 2", "factor: 3"), r"first\.factor"),
        (params.replace("  name: no", "  names: no"), r"first\.name, first\.names"),
        ("first: [", r"first\.factor, first\.name"),
    ):
        project.write("params.yaml", text)
        with pytest.raises(LineageError, match=rf"^{changed} changed while the stage ran, .* Run it again"):
            recorder.check_unchanged()
    project.write("params.yaml", params)
    for name in (".one.py.swp", ".DS_Store", "one.py~", "__pycache__/one.pyc"):  # of an editor, and of Python
        project.write(f"pipeline/words/{name}", "")
    recorder.check_unchanged()
    project.write("pipeline/words/one.py", "WORD = 3")
    (project.folder / "stages/first.py").unlink()
    with pytest.raises(LineageError, match=r"^pipeline/words, stages/first\.py changed while .* versions"):
        recorder.check_unchanged()


def test_raw_data_that_changes_during_a_run_is_told(project, here):
    recorder = Recorder("first", project.folder, here)
    project.write("data/raw/other.txt", "4")
    project.write("data/first/out.txt", "an output")
    recorder.check_unchanged()
    project.write("data/raw/in.txt", "4\n")  # of the same size
    with pytest.raises(LineageError, match=r"^data/raw/in\.txt changed while the stage ran, .* Run it again"):
        recorder.check_unchanged()


def test_a_file_of_a_raw_folder_that_changes_during_a_run_is_told(project, here):
    project.edit("dvc.yaml", "deps: [data/raw/in.txt,", "deps: [data/raw,")
    recorder = Recorder("first", project.folder, here)
    recorder.check_unchanged()
    project.write("data/raw/more.txt", "4")
    with pytest.raises(LineageError, match=r"^data/raw changed while the stage ran"):
        recorder.check_unchanged()


def test_an_output_of_another_stage_is_not_watched(project, here):
    """A stage may hold it open, and DVC compares it before."""
    recorder = Recorder("second", project.folder, here)
    project.write("data/first/out.txt", "another")
    recorder.check_unchanged()


def test_a_project_that_is_not_described_plainly_is_not_watched(project, here):
    project.write("dvc.yaml", "stages: {first: {cmd: [}}")
    Recorder("first", project.folder, here).check_unchanged()


def test_paths_with_parameters_in_them_and_data_added_to_dvc_count(project, here):
    project.edit("params.yaml", "first:\n", "first:\n  path: data/raw/own\n  most: 100_000_000\n  small: 1_0e-3\n")
    project.edit("dvc.yaml", "deps: [data/raw/in.txt,", 'deps: [data/raw/in.txt, "${first.path}",')
    project.write("data/raw/own/a.txt", "a")
    project.do("dvc", "add", "-q", "data/raw/own")
    project.do("dvc", "repro", "-q")
    path = Recorder("first", project.folder, here).finish()
    assert path is not None
    assert path.name.partition(".")[0] == keys(project)["first"]
    assert "first      ok" in project.audit("first").stdout


@pytest.mark.parametrize(
    "text",
    [
        *("outs:\n- hash: md5\n  path: later\n", "outs:\n", "", "- 1\n", "3", "outs: 3\n", "outs:\n- 3\n", "outs: [["),
        *("outs:\n- md5: 12\n", "outs:\n- path: [a]\n  md5: 12\n", "outs:\n- path: a\n  md5: [1]\n"),
        *("outs:\n- path: /etc/hosts\n  md5: 12\n", "outs:\n- path: ../../../a\n  md5: 12\n", "wdir: 3\nouts:\n- 1\n"),
        "outs:\n- path: in.txt\n  md5: !!int x\n",
    ],
)
def test_a_dvc_file_that_names_no_hash_does_not_matter(project, here, text):
    """As of an import that was not downloaded, or one that nobody can read: the file's data is hashed."""
    project.write("data/raw/later.dvc", text)
    path = Recorder("first", project.folder, here).finish()
    assert path is not None
    assert path.name.partition(".")[0] == keys(project)["first"]


def test_large_data_that_dvc_tracks_is_not_read_again(project, here, monkeypatch):
    """A wrong hash shows that it is taken; the file names its folder."""
    monkeypatch.setattr(facts, "LARGE", 1)
    project.write(
        "data/raw/in.txt.dvc", "wdir: ..\nouts:\n- path: raw/in.txt\n  md5: 0123456789abcdef0123456789abcdef\n"
    )
    path = Recorder("first", project.folder, here).finish()
    assert path is not None
    assert path.name.partition(".")[0] != keys(project)["first"]


def test_an_installation_that_was_cut_off_is_left_out(project, here, tmp_path, monkeypatch):
    """pip leaves such a folder where it is killed: no METADATA, or one without a name or a version."""
    for name, text in (("timm", None), ("openvino", ""), ("simplejpeg", "Name: simplejpeg\n")):
        folder = tmp_path / f"packages/{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        if text is not None:
            (folder / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    packages = json.loads(Recorder("second", project.folder, here).finish().read_text())["packages"]
    assert packages["numpy"]
    assert not {"timm", "openvino", "simplejpeg"} & packages.keys()


def test_what_was_not_committed_is_named(project, here):
    project.write("stages/second.py", (project.folder / "stages/second.py").read_text() + "# more\n")
    path = Recorder("second", project.folder, here).finish()
    assert json.loads(path.read_text())["uncommitted"] == ["stages/second.py"]


def test_the_first_facts_stay_in_the_store_and_the_last_in_the_project(project, here):
    first = Recorder("second", project.folder, here).finish({"run": 1})
    Recorder("second", project.folder, here).finish({"run": 2})
    assert json.loads(first.read_text())["notes"] == {"run": 2}
    shared = here.local_store / "runs" / first.name
    assert json.loads(shared.read_text())["notes"] == {"run": 1}
    assert not shared.stat().st_mode & stat.S_IWUSR


def test_an_experiment_in_a_folder_of_its_own_leaves_its_facts_in_the_project(project, here, tmp_path, monkeypatch):
    (tmp_path / "parent").mkdir()
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "parent"))
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    path = Recorder("second", project.folder, here).finish()
    assert path.parent == tmp_path / "parent/runs"
    assert json.loads(path.read_text())["experiment"] == "wide"


@pytest.mark.parametrize("wrong", ["outs", "dvc.yaml", "params.yaml", "store", "runs", "notes"])
def test_a_run_is_not_lost_because_its_facts_cannot_be_kept(project, here, caplog, wrong):
    match wrong:
        case "outs":
            (project.folder / "models/encoder/weights").unlink()
            (project.folder / "models/encoder").rmdir()
        case "dvc.yaml":
            project.edit("dvc.yaml", "  second:", "  other:")
        case "params.yaml":
            project.write("params.yaml", "first: [")
        case "runs":
            project.write("runs", "a file, not a folder")
        case "store":
            here.local_store.write_text("a file, not a folder")
    notes = {"weights": object()} if wrong == "notes" else {}
    assert Recorder("second", project.folder, here).finish(notes) is None
    assert "the facts of this run are not kept" in caplog.text


def test_facts_of_another_version_are_told_in_one_message(project):
    """As in a store that other versions use too."""
    project.keep_facts("third", project.folder / "runs", schema=99)
    project.keep_facts("second", project.folder / "runs", schema=99)
    for what in (["third"], ["--verify", "third"], ["--history", "metrics/third.json:test.r10"]):
        done = project.audit(*what)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("another version of Sightword") == 1
        assert ".json and 1 more: written by another version of Sightword (schema 99, not " in done.stderr


def test_facts_in_git_are_those_of_the_last_run_with_other_hashes(project, here):
    """A run with equal hashes leaves nothing to commit."""
    Recorder("second", project.folder, here).finish({"run": 1})
    kept = project.folder / "runs/first/second.json"
    before = kept.read_text()
    assert not {"host", "platform", "scorings"} & json.loads(before).keys()
    project.commit("facts")
    Recorder("second", project.folder, here).finish({"run": 2})
    assert kept.read_text() == before
    assert project.do("git", "status", "--porcelain") == ""
    project.write("models/encoder/weights", "0.60000")
    Recorder("second", project.folder, here).finish()
    assert project.do("git", "status", "--porcelain").splitlines() == [" M runs/first/second.json"]


def test_a_clone_knows_every_run_that_git_has(project, here, tmp_path):
    for factor in ("1e-1", "0.9"):
        project.edit("params.yaml", "factor: 1e-1", f"factor: {factor}")
        project.do("dvc", "repro", "-q")
        for stage in ("first", "second", "third"):
            Recorder(stage, project.folder, here).finish()
        project.commit(factor)
    clone = project.clone(tmp_path / "clone")
    for revision in ("HEAD", "HEAD~1"):
        found = clone.audited("metrics/third.json:test.r10", "--rev", revision)
        assert {stage["record"]["verdict"] for stage in found["stages"]} == {"run recorded"}


def test_kinds_of_processors_that_share_a_name_are_told_apart(tmp_path, monkeypatch):
    text = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: {}\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel\t\t: 99\n"
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: text.format(1))
    one = machine.processor()
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: text.format(17))
    assert (one, machine.processor()) == ("AMD EPYC (family 25, model 1)", "AMD EPYC (family 25, model 17)")


def test_a_machine_without_proc_has_a_processor_too(monkeypatch):
    def absent(path, encoding):
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", absent)
    assert machine.processor()
