"""Describes where features came from, for logs, metrics and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEMONSTRATION = "random weights: for demonstration"


def random_weights(attributes: Mapping[str, Any]) -> bool:
    """Return whether the image network was never trained."""
    return str(attributes.get("weights", "")).partition(":")[0] == "random"


def describe(attributes: Mapping[str, Any]) -> str:
    """Return one line about the root attributes of a ``features.h5``, which always names random weights."""
    backbone, origin = str(attributes.get("backbone", "")), str(attributes.get("origin", ""))
    if not backbone:
        return origin or "of unknown origin"
    words = f"{backbone}, {DEMONSTRATION if random_weights(attributes) else attributes.get('weights', '')}"
    return f"{words}; {origin}" if origin.startswith("precomputed") else words
