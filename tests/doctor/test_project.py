"""The project's files, and what git has of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from looks import only, states

from pipeline.doctor.context import Context
from pipeline.doctor.project import check_files, check_git


def test_a_clean_project(project) -> None:
    assert states(project.check(check_files)) == {"ok"}
    assert states(project.check(check_git)) == {"ok"}


def test_a_wrong_parameter_is_named(project) -> None:
    project.edit("params.yaml", "margin: 0.2", "margn: 0.2")
    found = only(project.check(check_files), "problem")
    assert "train.margn" in found.what
    assert "did you mean 'margin'" in found.what


@pytest.mark.parametrize("name", ["params.yaml", "dvc.yaml", "dvc.lock"])
@pytest.mark.parametrize("text", ["a: [", "\xff", "", "- 1\n", "a: 1\n", "\x00"])
def test_whatever_stands_in_a_file_is_a_problem_without_a_traceback(project, name, text) -> None:
    (project.folder / name).write_bytes(text.encode("latin-1"))
    found = project.check(check_files)
    if name == "dvc.lock" and text in ("", "a: 1\n"):
        return  # a lock without stages
    assert "could not be checked" not in only(found, "problem").what, found
    assert name in only(found, "problem").what
    # And the other checks see a project without them.
    context = Context(project.folder, project.folder)
    assert context.section("train") is None or name != "params.yaml"
    assert context.has_run("train") in (True, False)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_lock_however_damaged_stops_the_checks(project, data) -> None:
    """Pieces are cut out of it, doubled and exchanged, line by line."""
    lines = LOCK.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 4))):
        start, end, place = (data.draw(st.integers(0, len(lines))) for _ in range(3))
        piece = lines[start:end]
        lines[place:place] = data.draw(st.sampled_from([piece, [], ["  - 1\n"], ["\tx: y\n"], ["a: &b [*b]\n"]]))
    (project.folder / "dvc.lock").write_text("".join(lines))
    context = Context(project.folder, project.folder)
    for stage in ("a", "b", "train"):
        assert not context.has_run(stage)  # whatever it says, it has not the parameters of the sample
    assert all("could not be checked" not in one.what for one in project.check(check_files))


LOCK = """\
schema: '2.0'
stages:
  a:
    cmd: make a
    params:
      params.yaml:
        a: {size: 1}
    outs:
    - path: data/a
      md5: '33'
  b:
    cmd: make b
    deps:
    - path: data/a
      md5: '33'
    outs:
    - path: data/b
      md5: '44'
  train:
    cmd: train
    deps:
    - path: data/b
      md5: '44'
    params:
      params.yaml:
        train: {size: 1}
"""


def test_a_merge_conflict_in_the_lock(project) -> None:
    project.edit("dvc.lock", "stages:\n", "stages:\n<<<<<<< HEAD\n")
    found = only(project.check(check_files), "problem")
    assert "merge conflict" in found.what
    assert "dvc.lock, line 3" in found.what
    assert "git checkout" in found.todo


def test_files_that_are_missing(project) -> None:
    (project.folder / "params.yaml").unlink()
    (project.folder / "dvc.lock").unlink()
    found = project.check(check_files)
    assert "params.yaml" in only(found, "problem").what
    assert any("nothing has run" in one.what for one in found if one.state == "ok")


def test_uncommitted_changes_are_named(project) -> None:
    project.edit("params.yaml", "seed: 0", "seed: 1")
    (project.folder / "stages").mkdir()
    (project.folder / "stages/new.py").write_text("")
    (project.folder / "notes.txt").write_text("no matter")
    (project.folder / "data/raw/mine").mkdir()
    (project.folder / "data/raw/mine/a.jpg").write_text("no matter either")
    found = only(project.check(check_git), "warning")
    assert "params.yaml, stages/new.py" in found.what
    assert "notes" not in found.what
    assert "a.jpg" not in found.what


def test_a_repository_without_a_commit(project) -> None:
    project.git("update-ref", "-d", "HEAD")
    found = only(project.check(check_git), "warning")
    assert "results cannot be traced: git log: your current branch 'main' does not have any commits" in found.what
    assert "git commit" in found.todo


def test_an_unfinished_merge(project) -> None:
    project.git("switch", "-qc", "other")
    project.edit("params.yaml", "seed: 0", "seed: 1")
    project.git("commit", "-qam", "one")
    project.git("switch", "-q", "main")
    project.edit("params.yaml", "seed: 0", "seed: 2")
    project.git("commit", "-qam", "two")
    with pytest.raises(subprocess.CalledProcessError):
        project.git("merge", "other")
    assert "params.yaml" in only(project.check(check_git), "problem").what


def test_a_shallow_clone_and_a_detached_head(project, tmp_path: Path) -> None:
    project.git("commit", "-q", "--allow-empty", "-m", "second")
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{project.folder}", str(shallow)], check=True)
    project.folder = shallow
    assert "shallow" in only(project.check(check_git), "warning").what
    project.git("fetch", "-q", "--unshallow")
    assert states(project.check(check_git)) == {"ok"}
    project.git("switch", "-q", "--detach")
    assert "detached" in only(project.check(check_git), "warning").what


def test_line_ends_that_git_changes(project) -> None:
    project.git("config", "core.autocrlf", "true")
    assert "core.autocrlf" in only(project.check(check_git), "warning").what


def test_without_git_without_a_repository_and_without_a_commit(project, tmp_path: Path, monkeypatch) -> None:
    project.folder = tmp_path / "fresh"
    project.folder.mkdir()
    assert "not a git repository" in only(project.check(check_git), "warning").what
    project.git("init", "-q")
    assert "not have any commits" in only(project.check(check_git), "warning").what
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git cannot be run" in only(project.check(check_git), "warning").what


@pytest.mark.full
def test_a_repository_of_another_user(project) -> None:
    """Root alone can give a folder away."""
    for path in [project.folder, *project.folder.rglob("*")]:
        os.chown(path, 12345, 12345)
    assert "safe.directory" in only(project.check(check_git), "problem").what
