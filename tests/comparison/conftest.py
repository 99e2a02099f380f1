from __future__ import annotations

import pytest
from made_once import made_once
from tiny_project import TinyProject
from two_runs import project_with_two_runs


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> TinyProject:
    """A project with two runs; whoever changes it takes a copy."""
    made = TinyProject(made_once(tmp_path_factory, "two", project_with_two_runs), run=False)
    return made.copy(tmp_path_factory.mktemp("two") / "project")


@pytest.fixture
def project(ran, tmp_path, monkeypatch) -> TinyProject:
    """A copy of one's own, with the user in it."""
    copy = ran.copy(tmp_path / "project")
    monkeypatch.chdir(copy.folder)
    return copy
