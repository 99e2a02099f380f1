from __future__ import annotations

import pytest
from tiny_project import TinyProject, tiny_project


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> TinyProject:
    """A project that was run once; whoever changes it takes a copy."""
    return tiny_project(tmp_path_factory).copy(tmp_path_factory.mktemp("tiny") / "project")


@pytest.fixture
def project(ran, tmp_path) -> TinyProject:
    """A copy of one's own."""
    return ran.copy(tmp_path / "project")
