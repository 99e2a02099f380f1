"""Files of other programs, with the names of a store's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sightword.storage import manifests, segments

Columns = Mapping[str, pa.Array]


def _keys(values: pa.Array) -> Callable[[str, Sequence[bytes]], Columns]:
    return lambda segment, _keys: {"segment": pa.array([segment]), "keys": values}


def _names(values: pa.Array) -> Callable[[str, Sequence[bytes]], Columns]:
    return lambda _segment, _keys: {"segment": values, "keys": pa.array([bytes(8)], pa.large_binary())}


MANIFESTS: dict[str, Callable[[str, Sequence[bytes]], Columns]] = {
    "null keys": _keys(pa.array([None], pa.large_binary())),
    "keys of no type": _keys(pa.nulls(1)),
    "text": _keys(pa.array(["twelve keys"])),
    "lists": _keys(pa.array([[bytes(8)]])),
    "numbers": _keys(pa.array([[1, 2]])),
    "words of a dictionary": _keys(pa.array([b"12345678"]).dictionary_encode()),
    "half a key": _keys(pa.array([bytes(12)], pa.large_binary())),
    "no keys": _keys(pa.array([b""], pa.large_binary())),
    "wrong keys": _keys(pa.array([b"eight or so more"], pa.large_binary())),
    "some keys": lambda segment, keys: {
        "segment": pa.array([segment]), "keys": pa.array([min(keys)[:8]], pa.large_binary()),
    },
    "keys in another order": lambda segment, keys: {
        "segment": pa.array([segment]),
        "keys": pa.array([b"".join(key[:8] for key in sorted(keys, reverse=True))], pa.large_binary()),
    },
    "null segment": _names(pa.nulls(1, pa.string())),
    "binary segment": _names(pa.array([b"\xff"])),
    "list segment": _names(pa.array([["a"]])),
    "the description": _names(pa.array(["identity.json"])),
    "a long name": _names(pa.array(["long" * 10**5])),
    "other columns": lambda _segment, _keys: {"a": pa.array([1])},
    "no columns": lambda _segment, _keys: {},
}  # fmt: skip
"""Columns by what is wrong with them, for the name of a segment and its keys."""


def manifest_of(kind: str | Columns, segment: str = "", keys: Sequence[bytes] = ()) -> tuple[str, bytes]:
    """Return the name and the bytes of a manifest with these columns."""
    data = _written(kind if isinstance(kind, Mapping) else MANIFESTS[kind](segment, keys))
    return manifests.name_of(data), data


_KEY = hashlib.sha256(b"of another program").digest()
_SEGMENT = {
    "key": pa.array([_KEY], pa.binary(32)),
    "check": pa.array([_KEY], pa.binary(32)),
    "feature": pa.array([bytes(32)], pa.binary(32)),
}
SEGMENTS: dict[str, Columns] = {
    "wrong checksum": _SEGMENT,
    "other columns": {"a": pa.array([1])},
    "no columns": {},
    **{
        f"{column}: {kind}": {**_SEGMENT, column: values}
        for column in _SEGMENT
        for kind, values in {
            "null": pa.nulls(1, pa.binary(32)),
            "no type": pa.nulls(1),
            "text": pa.array(["text"]),
            "lists": pa.array([[1.0, 2.0]]),
            "short": pa.array([b"short"], pa.binary(5)),
            "empty": pa.array([b""], pa.binary()),
            "objects": pa.array([{"a": 1}]),
        }.items()
    },
}
"""Columns by what is wrong with them."""


def segment_of(kind: str) -> tuple[str, bytes]:
    """Return the name and the bytes of a segment with these columns."""
    data = _written(SEGMENTS[kind])
    return segments.name_of(data), data


def _written(columns: Mapping[str, Any]) -> bytes:
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), buffer)
    return buffer.getvalue().to_pybytes()
