"""Describes where features came from, for logs, metrics and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightword.messages import plural

DEMONSTRATION = "random weights: for demonstration"
BETWEEN = " + "
"""What stands between the values of several networks in an attribute."""
_IDENTITY = ("backbone", "feature_point", "weights_sha256", "network_sha256", "transform")


def random_weights(attributes: Mapping[str, Any]) -> bool:
    """Return whether the image network, or one of several, was never trained."""
    names = str(attributes.get("weights", "")).split(BETWEEN)
    return any(name.partition(":")[0] == "random" for name in names)


def describe(attributes: Mapping[str, Any]) -> str:
    """Return one line about the root attributes of a ``features.h5``, with random weights and rows of zeros."""
    backbone, origin = str(attributes.get("backbone", "")), str(attributes.get("origin", ""))
    if zero := attributes.get("zero_rows"):
        origin += f"; {plural(zero, 'picture')} with only zeros"
    if not backbone:
        return origin or "of unknown origin"
    words = f"{backbone}, {DEMONSTRATION if random_weights(attributes) else attributes.get('weights', '')}"
    return f"{words}; {origin}" if origin.startswith("precomputed") else words


def control(training: Mapping[str, Any]) -> str:
    """Return the controls in the parameters of a training run, as a sentence; empty without one."""
    found = []
    if training.get("pictures") == "none":
        found.append("it never saw a picture, and compared captions of one picture with each other")
    if training.get("pictures") == "shuffled":
        found.append("each picture had the features of another one, drawn at random")
    if training.get("clusters") == "shuffled":
        found.append("captions were dealt to pictures at random")
    return f"A control: {'; '.join(found)}." if found else ""


def other_kind(
    attributes: Mapping[str, Any], width: int, trained: Mapping[str, Any], trained_width: int
) -> tuple[str, Any, Any] | None:
    """Return the first property in which features are of another kind than those of a training run; None if in none.

    Args:
        attributes: the attributes of the features.
        width: number of features of a picture.
        trained: the attributes of the features of the training run.
        trained_width: their number for a picture.

    Returns:
        The name of the property, its value, and its value in training.
    """
    rows: list[tuple[str, Any, Any]] = [("number of features of a picture", width, trained_width)]
    identity = _IDENTITY if attributes.get("backbone") else (*_IDENTITY, "origin")  # the file of precomputed features
    rows += [(key, attributes.get(key), trained.get(key)) for key in identity]
    return next((row for row in rows if row[1] != row[2]), None)
