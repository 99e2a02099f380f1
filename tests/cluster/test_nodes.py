"""What a node must have in common with the process that gives it work."""

from __future__ import annotations

import dataclasses
import os
import shutil

import pytest

from sightword.cluster.nodes import END, Requirements, stamp
from sightword.errors import SetupError


@pytest.fixture
def requirements(tmp_path, monkeypatch) -> Requirements:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").write_bytes(b"pictures")
    (tmp_path / "probe").touch()
    return Requirements.here(["input"], tmp_path / "probe")


def test_a_node_that_has_all_enters_the_folder_of_the_run(requirements, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(os.path.sep)
    requirements.check()
    assert os.getcwd() == str(tmp_path)


def test_a_nodes_own_copy_of_a_file_is_the_same_file(requirements, tmp_path) -> None:
    shutil.copyfile(tmp_path / "input", tmp_path / "copy")
    (tmp_path / "copy").replace(tmp_path / "input")
    requirements.check()


def test_a_large_file_that_differs_at_either_end_is_another_file(tmp_path) -> None:
    data = bytes(3 * END)
    found = set()
    for at in (None, 0, len(data) - 1):
        (tmp_path / "file").write_bytes(data if at is None else data[:at] + b"x" + data[at + 1 :])
        found.add(stamp(str(tmp_path / "file")))
    assert len(found) == 3


@pytest.mark.parametrize("name", ["Python", "ray", "torch", "Sightword"])
def test_another_version_is_told(requirements, name) -> None:
    found = dict(requirements.versions)[name]
    other = dataclasses.replace(requirements, versions=(*requirements.versions, (name, "0.9")))
    with pytest.raises(SetupError) as caught:
        other.check()
    assert f"has {name} {found}; expected 0.9, as where the run was started. Install the same" in str(caught.value)


def test_what_a_node_does_not_see_is_told(requirements, tmp_path) -> None:
    with pytest.raises(SetupError, match="cannot enter the project's folder /nowhere"):
        dataclasses.replace(requirements, folder="/nowhere").check()
    (tmp_path / "probe").unlink()
    with pytest.raises(SetupError, match=r"does not see the store .*SIGHTWORD_STORE"):
        requirements.check()
    (tmp_path / "input").write_bytes(b"x" * len(b"pictures"))
    with pytest.raises(SetupError, match="does not see the same file input"):
        requirements.check()
