"""The memory that a process keeps for itself."""

from __future__ import annotations

import ctypes
import platform
import resource
from types import SimpleNamespace

import pytest
import torch

from sightword.compute.devices import MAP, keep_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_large_blocks_that_are_freed_are_soon_used_again_without_new_pages():
    keep_memory()
    for _ in range(50):
        torch.ones(64 << 18)  # 64 MB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(64 << 18)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20_000  # of 163,840 pages


@pytest.mark.skipif(platform.system() != "Linux", reason="elsewhere nothing changes")
def test_an_older_glibc_that_refuses_blocks_above_32_mb_keeps_those_up_to_32_mb(monkeypatch):
    limits = {}

    def mallopt(number, value):
        refused = number == MAP and value > 1 << 25
        limits.update({} if refused else {number: value})
        return int(not refused)

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    keep_memory.__wrapped__()
    assert limits[MAP] == 1 << 25
