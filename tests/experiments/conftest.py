"""The project that sweeps are run in."""

from __future__ import annotations

import os
import subprocess

import pytest
from swept_project import Project


@pytest.fixture(autouse=True)
def _git_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for variable in ("CUDA_VISIBLE_DEVICES", "SIGHTWORD_THREADS", "SIGHTWORD_WORKERS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")  # torch is not asked, which takes seconds


@pytest.fixture
def build(tmp_path, repository, monkeypatch):
    """A function that makes the project, committed, and goes there."""

    def made(below: str = ".") -> Project:
        found = Project(tmp_path / "project", repository, below)
        monkeypatch.chdir(found.folder)
        subprocess.run(["git", "init", "-q", str(found.root)], check=True)
        found.commit()
        return found

    return made


@pytest.fixture
def project(build) -> Project:
    return build()
