"""The memory that a process keeps for itself."""

from __future__ import annotations

import ctypes
import functools
import sys

TRIM, MAP = -1, -3
"""The numbers of glibc's thresholds (mallopt(3))."""
KEPT, MAPPED, OLD = (1 << 31) - 1, 1 << 30, 1 << 25
"""Bytes of free memory that are kept, of a block that is not, and of one that an older glibc takes at most."""


@functools.cache  # once in a process
def keep_memory() -> None:
    """Keep freed blocks of up to 1 GB for later ones, with glibc (32 MB with an older one); elsewhere nothing changes.

    By default glibc returns each block above 32 MB to Linux, which fills the next one with zeros, page by page: a
    third of a training step of n-grams, and a tenth of one of a GRU (benchmarks/RESULTS.md).
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(TRIM, KEPT)
        if not libc.mallopt(MAP, MAPPED):  # and its own threshold, 128 kB at first, no longer grows
            libc.mallopt(MAP, OLD)
