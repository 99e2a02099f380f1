"""The memory that a process keeps for itself."""

from __future__ import annotations

import ctypes
import functools
import sys

TRIM, MAP = -1, -3
"""The numbers of glibc's thresholds (mallopt(3))."""
KEPT, MAPPED = (1 << 31) - 1, 1 << 30
"""Bytes of free memory that are kept, and of a block that is not."""


@functools.cache  # once in a process
def keep_memory() -> None:
    """Keep freed blocks of up to 1 GB for later ones, with glibc; elsewhere nothing changes.

    By default glibc returns each block above 32 MB to Linux, which fills the next one with zeros, page by page: a
    third of a training step of n-grams, and a tenth of one of a GRU (benchmarks/RESULTS.md).
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(TRIM, KEPT)
        libc.mallopt(MAP, MAPPED)
