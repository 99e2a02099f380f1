from __future__ import annotations

import pytest
from rows_project import RowsProject


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> RowsProject:
    """A project that was run once; whoever changes it takes a copy."""
    return RowsProject(tmp_path_factory.mktemp("rows") / "project")


@pytest.fixture
def project(ran, tmp_path) -> RowsProject:
    """A copy of one's own."""
    return ran.copy(tmp_path / "project")
