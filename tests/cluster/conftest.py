"""A project whose features are computed, and a cluster whose nodes stay, for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ray_nodes import Nodes, Project


@pytest.fixture(scope="module")
def project(request, repository, tmp_path_factory) -> Project:
    """A project with as many resized pictures as the file of tests says."""
    made = Project(tmp_path_factory.mktemp("cluster") / "project", repository, request.module.PICTURES)
    made.run("resize", store=made.folder)
    return made


@pytest.fixture(scope="module")
def expected(project, tmp_path_factory) -> bytes:
    """What one machine computes."""
    project.run("features", store=tmp_path_factory.mktemp("stores") / "local")
    return project.taken()


@pytest.fixture(scope="module")
def nodes(repository) -> Iterator[Nodes]:
    with Nodes(repository, 2) as made:
        yield made
