"""A cluster whose nodes stay, for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ray_nodes import Nodes


@pytest.fixture(scope="module")
def nodes(repository) -> Iterator[Nodes]:
    made = Nodes(repository)
    try:
        made.add()
        made.add()
        yield made
    finally:
        made.stop()
