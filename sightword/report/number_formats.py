"""Formats the numbers on the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

NONE = "–"


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is a finite int or float, and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def percent(value: object) -> str:
    """Format a recall with one decimal, as papers do."""
    return f"{value:.1f}" if is_number(value) else NONE


def correlation(value: object) -> str:
    """Format a correlation with three decimals."""
    return f"{value:.3f}" if is_number(value) else NONE


def share(value: object) -> str:
    """Format a share between 0 and 1 as percent."""
    return f"{100 * value:.1f} %" if is_number(value) else NONE


def count(value: object) -> str:
    """Format a count in groups of three digits."""
    return f"{value:,}" if is_number(value) else NONE


def counted(number: int, one: str) -> str:
    """Format a count with its noun: ``1 picture``, ``2,000 pictures``."""
    return f"{number:,} {one}" + ("" if number == 1 else "s")


def plain(value: object) -> str:
    """Format the value of any parameter or metric for reading."""
    if value is None:
        return "none"
    if value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 else f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(plain(item) for item in value) or "none"
    return str(value)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten nested values to ``a.b`` -> text, in order and without hashes, which do not help a reader."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if key.endswith(("sha256", "md5", "checksum")):
            continue
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = plain(value)
    return found
