"""Folders that a run writes to, and the room on their disks."""

from __future__ import annotations

import errno
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from looks import only, states

from pipeline.doctor import disk
from pipeline.doctor.disk import check_disk

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, 500e9)


def set_free(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1e12, 1e12 - free, free))


def test_folders_need_not_exist_yet(project, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SIGHTWORD_STORE", str(tmp_path / "not/yet/there"))
    assert states(project.check(check_disk)) == {"ok"}


@pytest.mark.parametrize(
    ("variable", "name"), [("SIGHTWORD_STORE", "the store"), ("SIGHTWORD_SCRATCH", "the scratch folder")]
)
def test_a_folder_that_cannot_be_written_to(project, monkeypatch, variable, name) -> None:
    monkeypatch.setenv(variable, "/proc/nothing")  # not even for root
    found = only(project.check(check_disk), "problem")
    assert found.what.startswith(f"{name} cannot be written to: /proc")
    assert variable in found.todo


def test_only_a_full_disk_is_advised_to_drop_results_and_none_of_others(project, tmp_path, monkeypatch):
    project.facts["dvc"] = {"cache": "/proc/nothing"}
    refused = only(project.check(check_disk), "problem")
    assert refused.what.startswith("DVC's cache cannot be written to: /proc")
    assert refused.todo == "Ask for the right to write there, or use another folder: `dvc cache dir`."

    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk.tempfile, "TemporaryFile", full)
    found = [one.todo for one in project.check(check_disk)]
    assert any("docs/lab.md" in todo for todo in found)
    assert not any("dvc gc" in todo for todo in found)  # one clone does not know what others keep there
    own = project.folder / ".dvc/cache"
    project.facts["dvc"] = {"cache": str(own / "files/md5")}
    assert any("`dvc gc --all-commits`" in one.todo for one in project.check(check_disk))
    shutil.rmtree(own, ignore_errors=True)
    own.symlink_to(tmp_path)  # a disk that others use too
    assert not any("dvc gc" in one.todo for one in project.check(check_disk))


def test_a_read_only_folder(project, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    monkeypatch.setenv("SIGHTWORD_STORE", str(tmp_path / "locked/store"))
    found = project.check(check_disk)
    assert any(one.state == "problem" for one in found) == (os.geteuid() != 0)  # permission bits do not stop root


@pytest.mark.parametrize(("free", "state"), [(500e9, "ok"), (1e9, "warning"), (5e6, "problem")])
def test_a_disk_that_is_large_too_small_or_full(project, monkeypatch, free, state) -> None:
    set_free(monkeypatch, free)
    found = project.check(check_disk)
    assert states(found) == {state}
    assert all("free" in one.what for one in found)
