"""What the tests on a GPU share; without one all are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from sightword import machine
from sightword.compute import devices


@pytest.fixture
def gpu() -> Iterator[torch.device]:
    """The GPU, with the settings of a stage."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    threads = torch.get_num_threads()
    yield devices.use(replace(machine.current(), device="cuda"))
    torch.set_num_threads(threads)
