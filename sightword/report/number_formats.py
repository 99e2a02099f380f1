"""Formats of numbers on the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

NONE = "–"


def is_number(value: object) -> TypeGuard[float]:
    """Whether ``value`` is a finite int or float, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def percent(value: object) -> str:
    """A recall: one decimal, as papers print it."""
    return f"{value:.1f}" if is_number(value) else NONE


def correlation(value: object) -> str:
    """A correlation: three decimals."""
    return f"{value:.3f}" if is_number(value) else NONE


def share(value: object) -> str:
    """A share between 0 and 1 as percent."""
    return f"{100 * value:.1f} %" if is_number(value) else NONE


def count(value: object) -> str:
    """A count, in groups of three digits."""
    return f"{value:,}" if is_number(value) else NONE


def counted(number: int, one: str) -> str:
    """A count with its noun: ``1 picture``, ``2,000 pictures``."""
    return f"{number:,} {one}" + ("" if number == 1 else "s")


def plain(value: object) -> str:
    """Any value of a parameter or metric, as a person would write it."""
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
    """Nested values as ``a.b`` -> text, in the order they have; without hashes, which mean nothing to a reader."""
    found: dict[str, str] = {}
    for key, value in values.items():
        if key.endswith(("sha256", "md5", "checksum")):
            continue
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = plain(value)
    return found
