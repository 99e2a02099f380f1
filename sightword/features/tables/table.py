"""Writes ``features.h5`` whole, and checks it when reading."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from sightword.errors import FeaturesError, FileFormatError
from sightword.io.files import Pathish, atomic_file
from sightword.io.hdf5 import created, opened, read_rows
from sightword.messages import and_more, first_line, quote

SCHEMA = 2
AGAIN = "Run `dvc repro features`, or copy the file again from where it is whole."
SHA256_LENGTH = 64
LARGEST = np.float32(1e15)
"""The largest size of a feature: sums of squares of larger ones leave float32."""
HEADERS = 1 << 14
"""The most bytes of the file besides its tables."""

_TABLES = ("features", "image_id", "sha256")
_REJECTED = "rejected"

Array = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Origin:
    """The root attributes of ``features.h5`` that state how its features were made."""

    backbone: str
    feature_point: str
    weights: str
    weights_sha256: str
    transform: str
    """JSON with sorted keys."""
    precision: str
    origin: str
    """``extracted``, or ``precomputed`` and the file with its sha256."""
    network_sha256: str = ""
    """Of :func:`sightword.features.network_files.network_sha256`; an attribute only if there is one."""


_STATED = [name for name in Origin.__dataclass_fields__ if name != "network_sha256"]


@dataclass(frozen=True)
class FeatureTable:
    """Features with their pictures, sorted by picture id."""

    features: Array
    """float32 (N, D)."""
    image_ids: list[str]
    sha256: list[str]
    """The sha256 of each source picture, in hex; empty if unknown."""
    attributes: dict[str, Any]
    """The root attributes of the file."""
    rejected: frozenset[str] = frozenset()
    """Pictures of the corpus that could not be decoded."""

    @cached_property
    def _places(self) -> dict[str, int]:
        return {image_id: row for row, image_id in enumerate(self.image_ids)}

    def rows(self, image_ids: Iterable[str], *, where: object = None) -> Rows:
        """Return the rows of pictures, int64 (n,), in the given order; FeaturesError if pictures have no features."""
        wanted = list(image_ids)
        missing = sorted(set(wanted) - self._places.keys())
        if missing:
            what = f"{len(missing)} of {len(set(wanted))} pictures have no features: {and_more(missing, 5)}"
            todo = "Add the rows, or remove the pictures from the corpus."
            raise FeaturesError(what, where=where, expected="a row for each picture of the corpus", todo=todo)
        return np.array([self._places[image_id] for image_id in wanted], np.int64)


def without(table: FeatureTable, image_ids: Collection[str]) -> FeatureTable:
    """Return a table without some pictures; the table itself where it has none of them."""
    rows = [row for row, image_id in enumerate(table.image_ids) if image_id not in image_ids]
    if len(rows) == len(table.image_ids):
        return table
    ids, hashes = ([column[row] for row in rows] for column in (table.image_ids, table.sha256))
    return replace(table, features=table.features[rows], image_ids=ids, sha256=hashes)


def write_features(
    path: Pathish,
    image_ids: Sequence[str],
    sha256: Sequence[str],
    dimension: int,
    blocks: Iterable[tuple[Rows, Array]],
    origin: Origin,
    rejected: Sequence[str] = (),
    zero_rows: int = 0,
) -> None:
    """Write ``features.h5``, whole or not at all; the bytes do not depend on the order or size of the blocks.

    Args:
        path: the file.
        image_ids: N picture ids, sorted and distinct.
        sha256: N sha256 of source pictures in hex, or empty texts.
        dimension: D.
        blocks: row numbers (n,) and their features (n, D), in any order, each row once.
        origin: how the features were made.
        rejected: pictures that could not be decoded.
        zero_rows: rows of only zeros.

    Raises:
        FeaturesError: ids are not sorted, rows are missing, repeated or out of range, or values do not fit
            (:data:`LARGEST`).
    """
    count = len(image_ids)
    if len(sha256) != count:
        raise FeaturesError(f"{len(sha256)} sha256 for {count} pictures", where=path)
    if not all(map(operator.lt, image_ids, itertools.islice(image_ids, 1, None))):
        raise FeaturesError("picture ids must be sorted, each once", where=path)
    names, lost = list(map(str.encode, image_ids)), list(map(str.encode, sorted(rejected)))
    width, longest = (max(map(len, texts), default=1) or 1 for texts in (names, lost))
    room = count * (4 * dimension + width + SHA256_LENGTH) + len(lost) * longest + HEADERS
    seen = np.zeros(count, bool)
    with atomic_file(path) as temporary, created(temporary, room) as (file, check):
        features = file.create_dataset("features", (count, dimension), "<f4")
        for rows, values in blocks:
            _check_block(rows, values, seen, dimension, path)
            seen[rows] = True
            _write_rows(features, rows, values)
            check()
        if not seen.all():
            raise FeaturesError(f"{np.count_nonzero(~seen)} of {count} rows were never written", where=path)
        _write_strings(file, "image_id", names, width, path)
        _write_strings(file, "sha256", list(map(str.encode, sha256)), SHA256_LENGTH, path)
        if lost:
            _write_strings(file, _REJECTED, lost, longest, path)
        stated = {name: value for name, value in asdict(origin).items() if value or name in _STATED}
        file.attrs.update({"schema": SCHEMA, **stated, "rows": count, "complete": True})
        if zero_rows:
            file.attrs["zero_rows"] = zero_rows


def read_features(path: Pathish, again: str = AGAIN) -> FeatureTable:
    """Read and check ``features.h5``; FileFormatError, with the remedy ``again``, if it is missing, of another schema,
    not complete or damaged.
    """
    expected, first = "a features file of this Sightword", "Run the stage features first."
    with opened(path, expected=expected, first=first, again=again) as (attributes, datasets, checksum):
        schema = attributes.get("schema")
        if schema != SCHEMA or not attributes.get("complete") or not set(_TABLES) <= set(datasets):
            what = f"has the schema {quote(schema)}" if schema != SCHEMA else "was not written to its end"
            raise FileFormatError(what, where=path, expected=f"{SCHEMA}, whole", todo=again)
        tables = {
            name: read_rows(datasets[name], slice(None), again) for name in (*_TABLES, _REJECTED) if name in datasets
        }
    try:
        kind = tables["features"].dtype.kind, tables["features"].ndim, len({len(tables[name]) for name in _TABLES})
        if kind != ("f", 2, 1):
            raise ValueError("its tables are no features with ids")
        texts = {name: list(map(bytes.decode, tables[name].tolist())) for name in tables if name != "features"}
    except (TypeError, ValueError) as error:  # of another program, which wrote the checksum too
        raise FileFormatError(f"is damaged ({first_line(error)})", where=path, todo=again) from None
    rejected = frozenset(texts.get(_REJECTED, []))
    attributes = attributes | {"checksum": checksum}
    return FeatureTable(tables["features"], texts["image_id"], texts["sha256"], attributes, rejected)


def _check_block(rows: Rows, values: Array, seen: npt.NDArray[np.bool_], dimension: int, path: Pathish) -> None:
    if values.shape != (len(rows), dimension) or ((rows < 0) | (rows >= len(seen))).any():
        raise FeaturesError(f"a block of {values.shape} does not fit {(len(seen), dimension)} features", where=path)
    if ((np.diff(rows) <= 0).any() and len(np.unique(rows)) != len(rows)) or seen[rows].any():
        raise FeaturesError("a row is written twice", where=path)
    if not (np.abs(values) <= LARGEST).all():  # comparisons with NaN are false
        raise FeaturesError(f"a block has values that are not finite, or larger than {LARGEST:g}", where=path)


def _write_rows(features: h5py.Dataset, rows: Rows, values: Array) -> None:
    """Write neighbouring rows together: h5py's own fancy indexing writes rows one by one, slowly."""
    if (np.diff(rows) <= 0).any():
        order = np.argsort(rows)
        rows, values = rows[order], values[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        features[rows[start] : rows[start] + (end - start)] = values[start:end]


def _write_strings(file: h5py.File, name: str, values: Sequence[bytes], length: int, path: Pathish) -> None:
    if b"\0" in b"".join(values) or max(map(len, values), default=0) > length:
        raise FeaturesError(f"a {name} holds a NUL or is longer than {length} bytes", where=path)
    kind = h5py.string_dtype("utf-8", length)
    file.create_dataset(name, data=np.array(values, kind), dtype=kind)
