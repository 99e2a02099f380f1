"""Clones on machines where git is set to CRLF as line ends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from checkout import Checkout

from pipeline import new_project


@pytest.fixture(scope="module")
def clones(repository, tmp_path_factory) -> tuple[Checkout, Path]:
    """This project as committed, and a clone with ``core.autocrlf=true``."""
    own = Checkout(repository, tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("store"))
    return own, cloned(own.folder, tmp_path_factory.mktemp("clone") / "crlf")


def cloned(source: Path, folder: Path) -> Path:
    crlf = ("-c", "core.autocrlf=true")
    subprocess.run(["git", "clone", "-q", *crlf, str(source), str(folder)], check=True, capture_output=True)
    return folder


def tracked(folder: Path) -> dict[str, bytes]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return {name: (folder / name).read_bytes() for name in filter(None, listed.split("\0"))}


def test_clone_with_crlf_has_the_same_bytes(clones) -> None:
    own, crlf = clones
    here, there = tracked(own.folder), tracked(crlf)
    assert len(here) > 500
    assert [name for name in here if here[name] != there[name]] == []


def test_new_project_keeps_line_ends_of_code_and_bytes_of_data(tmp_path) -> None:
    made, _ = new_project.create(tmp_path / "made")
    mixed = b"image,caption,split\r\na.jpg,A dog .\n"
    (made / "data/raw/captions.csv").write_bytes(mixed)
    for command in (
        ["add", "-A"],
        ["add", "-f", "data/raw/captions.csv"],
        ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "start"],
    ):
        subprocess.run(["git", *command], cwd=made, check=True, capture_output=True)
    crlf = cloned(made, tmp_path / "crlf")
    assert tracked(crlf) == tracked(made)
    assert (crlf / "data/raw/captions.csv").read_bytes() == mixed
    assert b"dvc.lock -merge\n" in (crlf / ".gitattributes").read_bytes()
