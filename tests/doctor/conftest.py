"""A project to check, and the findings of single checks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fork_server
import pytest

from pipeline.doctor.findings import Check, Context, Finding, examine

Function = Callable[[Context], Iterable[Finding]]


class Project:
    """A folder with the sample's parameters, and the checks on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = {"dvc": {}, "torch": {}}

    def check(self, function: Function, *, quick: bool = False, project: bool = True) -> list[Finding]:
        """Return the findings of one check; DVC and torch answer as ``facts`` says, and are not started."""
        context = Context(self.folder, self.folder if project else None, quick=quick, facts=dict(self.facts))
        return list(examine([Check("it", function)], context))

    def git(self, *words: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        done = subprocess.run(["git", *identity, *words], cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout

    def edit(self, file: str, old: str, new: str) -> None:
        text = (self.folder / file).read_text()
        assert old in text
        (self.folder / file).write_text(text.replace(old, new))


@pytest.fixture
def project(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(sys, "executable", fork_server.python())  # which starts the programs that the doctor asks
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(repository / "params.yaml", folder / "params.yaml")
    for name in ("dvc.yaml", "dvc.lock", "pyproject.toml", "constraints.txt"):
        shutil.copy(repository / name, folder / name)
    shutil.copytree(repository / "data/raw", folder / "data/raw")
    (folder / ".dvc").mkdir()
    (folder / ".gitignore").write_text("/.dvc/tmp\n")
    found = Project(folder)
    found.git("init", "-q", "-b", "main")
    found.git("add", "-A")
    found.git("commit", "-qm", "start")
    return found
