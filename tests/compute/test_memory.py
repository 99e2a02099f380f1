"""The memory that a process keeps for itself."""

from __future__ import annotations

import platform
import resource

import pytest
import torch

from sightword.compute.memory import keep_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_a_large_block_that_was_freed_is_used_again_without_new_pages():
    keep_memory()
    torch.ones(64 << 18)  # 64 MB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(64 << 18)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000  # of 16,384 pages
