"""Where features came from, and features of several networks side by side: the names, and the vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from sightword.errors import FeaturesError
from sightword.features.tables.table import FeatureTable, Origin
from sightword.io.files import canonical_json, loads
from sightword.messages import and_more, plural

DEMONSTRATION = "random weights: for demonstration"
BETWEEN = " + "
"""What stands between the values of several networks in an attribute."""
_IDENTITY = ("backbone", "feature_point", "weights_sha256", "network_sha256", "transform")
_NAMES = [name for name in Origin.__dataclass_fields__ if name not in ("transform", "origin")]


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

    Both have attributes and a width, the number of features of a picture. The property is a name and its two values.
    """
    rows: list[tuple[str, Any, Any]] = [("number of features of a picture", width, trained_width)]
    identity = _IDENTITY if attributes.get("backbone") else (*_IDENTITY, "origin")  # the file of precomputed features
    rows += [(key, attributes.get(key), trained.get(key)) for key in identity]
    return next((row for row in rows if row[1] != row[2]), None)


def parts_of(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the attributes of each network, in the order of the vectors; of one network, its own."""
    columns = {name: str(attributes.get(name, "")).split(BETWEEN) for name in _NAMES}
    count = len(columns["backbone"])
    if not attributes.get("network_sha256"):
        columns["network_sha256"] = [""] * count
    if count == 1:
        return [dict(attributes)]
    try:
        transforms = [canonical_json(one) for one in loads(str(attributes.get("transform", "")))]
        rows = zip(*(columns[name] for name in _NAMES), transforms, strict=True)
        names = (*_NAMES, "transform")
        return [{**attributes, **dict(zip(names, row, strict=True))} for row in rows]
    except (TypeError, ValueError):
        what = f"the attributes name {count} networks and not as many weights, feature points and transforms"
        raise FeaturesError(what, where=attributes.get("backbone")) from None


def side_by_side(parts: Sequence[npt.NDArray[np.floating]]) -> npt.NDArray[np.float32]:
    """Return vectors (.., D1), (.., D2) and so on, each scaled to length 1, as (.., D1 + D2 ..); zeros stay."""
    scaled = []
    for part in parts:
        values = np.asarray(part, np.float32)
        lengths = np.sqrt(np.square(values, dtype=np.float64).sum(axis=-1, keepdims=True))
        scaled.append((values / np.where(lengths > 0, lengths, 1)).astype(np.float32))
    return np.concatenate(scaled, axis=-1)


def joined(tables: Sequence[FeatureTable], names: Sequence[str]) -> FeatureTable:
    """Return the features of the pictures that all tables have, side by side, with the attributes of all.

    FeaturesError: a picture has other bytes in another table, by its name in ``names``.
    """
    rejected = reduce(frozenset.union, (table.rejected for table in tables))
    shared = set(tables[0].image_ids).intersection(*(table.image_ids for table in tables[1:]))
    ids = sorted(shared.difference(rejected))
    rows = [table.rows(ids) for table in tables]
    hashes = [[table.sha256[row] for row in some] for table, some in zip(tables, rows, strict=True)]
    for name, own in zip(names[1:], hashes[1:], strict=True):
        other = [one for one, a, b in zip(ids, hashes[0], own, strict=True) if a and b and a != b]
        if other:
            what = f"{len(other)} pictures have other bytes than in {names[0]}: {and_more(other)}"
            raise FeaturesError(what, where=name, todo="Extract both from the same pictures.")
    features = side_by_side([table.features[some] for table, some in zip(tables, rows, strict=True)])
    attributes = {name: BETWEEN.join(str(table.attributes.get(name, "")) for table in tables) for name in _NAMES}
    if not any(table.attributes.get("network_sha256") for table in tables):
        del attributes["network_sha256"]
    attributes["transform"] = canonical_json([loads(table.attributes.get("transform") or "{}") for table in tables])
    known = all(table.attributes.get("backbone") for table in tables)
    attributes |= {} if known else {"backbone": ""}
    sha256 = [next((one for one in some if one), "") for some in zip(*hashes, strict=True)]
    return FeatureTable(features, ids, sha256, attributes, rejected)
