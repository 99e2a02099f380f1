"""Where features came from, in words for logs, metrics and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEMONSTRATION = "random weights: for demonstration"


def random_weights(attributes: Mapping[str, Any]) -> bool:
    """Whether the image network was never trained."""
    weights = str(attributes.get("weights", ""))
    return weights == "random" or weights.startswith("random:")


def describe(attributes: Mapping[str, Any]) -> str:
    """One line about the root attributes of a ``features.h5``; it never keeps silent about random weights."""
    backbone, weights = str(attributes.get("backbone", "")), str(attributes.get("weights", ""))
    if not backbone:
        return str(attributes.get("origin") or "of unknown origin")
    words = f"{backbone}, {DEMONSTRATION if random_weights(attributes) else weights}"
    origin = str(attributes.get("origin", ""))
    return f"{words}; {origin}" if origin.startswith("precomputed") else words
