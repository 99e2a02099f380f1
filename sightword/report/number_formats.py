"""Formats numbers and parameters for pages and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from sightword import messages
from sightword.statistics.inference import Interval, interval_text, with_interval

NONE = "–"
MUCH = 0.1
"""Sets with at least this share of sentences seen in training are marked."""

LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
"""The stars of a p below each level."""


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is a finite int or float, and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def percent(value: object) -> str:
    """Format a recall with one decimal, as papers do."""
    return f"{value:.1f}" if is_number(value) else NONE


def tile(value: float, interval: Interval | None) -> tuple[str, str]:
    """Format a proportion for a large tile: ``71.7 ± 1.2 %``, or ``100.0 %`` with its interval as a remark."""
    if isinstance(interval, list | tuple):
        return f"{percent(value)} %", f"95 % interval {interval_text(interval)}"
    return f"{with_interval(value, interval)} %", ""


def correlation(value: object, none: str = NONE) -> str:
    """Format a correlation with three decimals; ``none`` stands for a missing one."""
    return f"{value:.3f}" if is_number(value) else none


def share(value: object) -> str:
    """Format a share between 0 and 1 as percent."""
    return f"{100 * value:.1f} %" if is_number(value) else NONE


def count(value: object) -> str:
    """Format a count in groups of three digits."""
    return f"{value:,}" if is_number(value) else NONE


def counted(number: int, one: str, many: str = "") -> str:
    """Format a count with its noun: ``1 picture``, ``2,000 pictures``, ``2 queries`` (``many``)."""
    return messages.plural(f"{number:,}", one, many)


def signed(value: float, digits: int = 3) -> str:
    """Format a difference with its sign; a difference that rounds to 0 has none."""
    text = f"{value:+.{digits}f}"
    return text if text.strip("+-0.") else text[1:]


def p_value(p: float) -> str:
    """Format the p of a test with four decimals, or as ``<0.0001``."""
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def stars(p: float | None) -> str:
    """Return the stars of a corrected p, as in published tables."""
    return next((text for level, text in LEVELS if p is not None and p < level), "")


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
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(item)}" for name, item in value.items()) or "none"
    return str(value)


def much_seen(scores: Mapping[str, Any]) -> bool:
    """Return whether a tenth or more of a subtask's sentences was seen in training."""
    seen = scores.get("seen_in_training")
    return is_number(seen) and seen >= MUCH
