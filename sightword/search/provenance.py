"""What the attributes of features and the notes of an encoder say of the network behind them, compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.features.tables.origin import DEMONSTRATION, random_weights


def check_width(encoder: SentenceEncoder, width: int, attributes: Mapping[str, Any], where: Path | None) -> None:
    """Raise EncoderError if an encoder was trained on features of another width than these."""
    trained = encoder.notes.get("features")
    if width != encoder.features_width:
        of = f" ({_network(trained)})" if isinstance(trained, dict) else ""
        what = f"has {width} numbers a picture ({_network(attributes)})"
        expected = f"{encoder.features_width}, as the encoder was trained with{of}"
        raise EncoderError(what, where=where, expected=expected, todo="Give the features of the same run.")


def _network(attributes: Mapping[str, Any]) -> str:
    """Return the name of the network that made features, or of the file they came from, without its sha256."""
    if not attributes.get("backbone"):
        return str(attributes.get("origin") or "of unknown origin").partition(" (sha256")[0]
    weights = DEMONSTRATION if random_weights(attributes) else f"weights {attributes.get('weights', '')}"
    return f"{attributes['backbone']}, {weights}"


def difference(trained: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Describe the features of the training where they may be of another kind than these; empty otherwise."""
    parts = [
        key
        for key in ("backbone", "feature_point", "weights_sha256", "network_sha256")
        if trained.get(key) != here.get(key)
    ]
    if not trained.get("backbone") and not here.get("backbone"):
        parts = ["origin"] if trained.get("origin") != here.get("origin") else []
    elif _transform(trained) != _transform(here):
        parts.append("transform")
    if not parts:
        return ""
    names = _network(trained), _network(here)
    if here.get("backbone") and not trained.get("backbone"):
        return f"an unknown network ({names[0]}): scores mean nothing if these ({names[1]}) are of another one"
    if names[0] != names[1]:
        return f"another kind ({names[0]}) than these ({names[1]}): scores may mean nothing"
    words = {
        "feature_point": "points of the network",
        "transform": "crops or normalisation",
        "network_sha256": "files of the network",
        "origin": "contents",
    }
    others = ", ".join(words.get(part, "weights") for part in parts)
    return f"another kind ({names[0]}, but other {others}): scores may mean nothing"


def _transform(attributes: Mapping[str, Any]) -> object:
    """Return the transform without ``exif``, which changes rotated photographs only."""
    try:
        values = json.loads(str(attributes.get("transform") or "{}"))
    except ValueError:
        return attributes.get("transform")
    parts = values if isinstance(values, list) else [values]  # of several networks
    return [{**one, "exif": None} if isinstance(one, dict) else one for one in parts]
