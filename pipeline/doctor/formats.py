"""How sizes and lists are told."""

from __future__ import annotations

from collections.abc import Sequence


def size(count: float) -> str:
    """Bytes for a person, in powers of ten as disks are sold."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" or abs(value) >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def some(items: Sequence[str], shown: int = 5) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more
