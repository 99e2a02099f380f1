"""Features of several networks side by side, as one table: the names, and the vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from sightword.errors import FeaturesError
from sightword.features.tables.origin import BETWEEN
from sightword.features.tables.table import FeatureTable, Origin
from sightword.io.files import canonical_json
from sightword.messages import and_more

_NAMES = [name for name in Origin.__dataclass_fields__ if name not in ("transform", "origin")]


def parts_of(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the attributes of each network, in the order of the vectors; of one network, its own."""
    columns = {name: str(attributes.get(name, "")).split(BETWEEN) for name in _NAMES}
    count = len(columns["backbone"])
    if not attributes.get("network_sha256"):
        columns["network_sha256"] = [""] * count
    if count == 1:
        return [dict(attributes)]
    try:
        transforms = [canonical_json(one) for one in json.loads(str(attributes.get("transform", "")))]
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

    Args:
        tables: at least two.
        names: their names, for messages.

    Raises:
        FeaturesError: a picture has other bytes in another table.
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
    attributes["transform"] = canonical_json(
        [json.loads(table.attributes.get("transform") or "{}") for table in tables]
    )
    known = all(table.attributes.get("backbone") for table in tables)
    attributes |= {} if known else {"backbone": ""}
    sha256 = [next((one for one in some if one), "") for some in zip(*hashes, strict=True)]
    return FeatureTable(features, ids, sha256, attributes, rejected)
