"""The memory that a process keeps for itself."""

from __future__ import annotations

import platform
import resource

import pytest
import torch

from sightword.compute.memory import keep_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_large_blocks_that_are_freed_are_soon_used_again_without_new_pages():
    keep_memory()
    for _ in range(50):
        torch.ones(64 << 18)  # 64 MB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(64 << 18)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20_000  # of 163,840 pages
