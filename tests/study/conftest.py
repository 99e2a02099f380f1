from __future__ import annotations

import pytest
from made_once import made_once
from rows_project import RowsProject


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> RowsProject:
    """A project that was run once; whoever changes it takes a copy."""
    made = RowsProject(made_once(tmp_path_factory, "rows", RowsProject), run=False)
    return made.copy(tmp_path_factory.mktemp("rows") / "project")


@pytest.fixture
def project(ran, tmp_path) -> RowsProject:
    """A copy of one's own."""
    return ran.copy(tmp_path / "project")
