"""``features.h5``: written whole, checked when read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from sightword.errors import FeaturesError, FileFormatError
from sightword.features.hdf5 import AGAIN, created, opened
from sightword.files import Pathish, atomic_file

SCHEMA = 2
SHA256_LENGTH = 64
ROWS_AT_A_TIME = 1024
HEADERS = 1 << 14
"""The most bytes that the file has besides its tables."""

_TEXTS = ("backbone", "feature_point", "weights", "weights_sha256", "transform", "precision", "origin")
_TYPES = {"schema": int, **dict.fromkeys(_TEXTS, str), "rows": int, "complete": bool}
_TABLES = ("features", "image_id", "sha256")
_REJECTED = "rejected"

Array = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Origin:
    """The root attributes of ``features.h5`` that tell how its features were made."""

    backbone: str
    feature_point: str
    weights: str
    weights_sha256: str
    transform: str
    """JSON with sorted keys."""
    precision: str
    origin: str
    """``extracted``, or ``precomputed`` and the file with its sha256."""


@dataclass(frozen=True)
class FeatureTable:
    """Features with the pictures they belong to, sorted by picture id."""

    features: Array
    """float32 (N, D)."""
    image_ids: list[str]
    sha256: list[str]
    """Of each source picture; empty where it is not known."""
    attributes: dict[str, Any]
    """The root attributes of the file."""
    rejected: frozenset[str] = frozenset()
    """Pictures of the corpus that could not be decoded, as many as ``resize.max_rejects`` allowed."""

    @cached_property
    def _places(self) -> dict[str, int]:
        return {image_id: row for row, image_id in enumerate(self.image_ids)}

    def rows(self, image_ids: Iterable[str]) -> Rows:
        """The rows of some pictures, int64, in the order asked for.

        Raises:
            FeaturesError: pictures without features, how many and the first few.
        """
        wanted = list(image_ids)
        places = self._places
        missing = sorted({image_id for image_id in wanted if image_id not in places})
        if missing:
            raise missing_features(missing, len(set(wanted)))
        return np.fromiter((places[image_id] for image_id in wanted), np.int64, len(wanted))


def missing_features(missing: Sequence[str], wanted: int, *, where: object | None = None) -> FeaturesError:
    """The error for pictures without features."""
    more = ", ..." if len(missing) > 5 else ""
    return FeaturesError(
        f"{len(missing)} of {wanted} pictures have no features: {', '.join(missing[:5])}{more}",
        where=where,
        expected="a row for each picture of the corpus",
        todo="Add the rows, or take the pictures out of the corpus.",
    )


def write_features(
    path: Pathish,
    image_ids: Sequence[str],
    sha256: Sequence[str],
    dimension: int,
    blocks: Iterable[tuple[Rows, Array]],
    origin: Origin,
    rejected: Sequence[str] = (),
) -> None:
    """Write ``features.h5``, which appears whole or not at all.

    The bytes depend on the content only, not on the order or size of the blocks.

    Args:
        path: the file.
        image_ids: N picture ids, sorted, without duplicates.
        sha256: N sha256 of source pictures in hex, or empty texts.
        dimension: D.
        blocks: row numbers (n,) and their features (n, D), in any order, each row once.
        origin: how the features were made.
        rejected: pictures that could not be decoded; kept in ``/rejected`` where there are any,
            so that their captions can be left out knowingly.

    Raises:
        FeaturesError: ids not sorted or not unique, rows missing, repeated or outside,
            or values that are not finite.
        OSError: what the file system says; that the disk is full, before the first block is taken.
    """
    count = len(image_ids)
    if len(sha256) != count:
        raise FeaturesError(f"{len(sha256)} sha256 for {count} pictures", where=path)
    if any(not one < other for one, other in itertools.pairwise(image_ids)):
        raise FeaturesError("picture ids must be sorted, each once", where=path)
    names = [image_id.encode() for image_id in image_ids]
    width = max((len(name) for name in names), default=1)
    lost = [image_id.encode() for image_id in sorted(rejected)]
    longest = max((len(name) for name in lost), default=0)
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
        _write_strings(file, "image_id", names, max(width, 1), path)
        _write_strings(file, "sha256", [text.encode() for text in sha256], SHA256_LENGTH, path)
        if lost:
            _write_strings(file, _REJECTED, lost, longest, path)
        file.attrs["schema"] = SCHEMA
        for key in _TEXTS:
            file.attrs[key] = getattr(origin, key)
        file.attrs["rows"] = count
        file.attrs["complete"] = True  # last


def read_features(path: Pathish) -> FeatureTable:
    """Read and check ``features.h5``.

    Raises:
        FileFormatError: missing, of another schema or program, not complete, damaged or changed.
        FeaturesError: ids not sorted, or values that are not finite.
    """
    with opened(path) as (file, checksum):
        attributes = {**_read_attributes(file, path), "checksum": checksum}
        features = _table(file, "features", attributes["rows"], path)
        image_ids, sha256 = (
            [text.decode() for text in _table(file, name, attributes["rows"], path).tolist()]
            for name in ("image_id", "sha256")
        )
        lost = _table(file, _REJECTED, None, path).tolist() if _REJECTED in file else []
        rejected = frozenset(text.decode() for text in lost)
    if any(not one < other for one, other in itertools.pairwise(image_ids)):
        raise FeaturesError("its picture ids are not sorted, each once", where=path, todo=AGAIN)
    if not rejected.isdisjoint(image_ids):
        raise FileFormatError("is damaged: it has rows of pictures it calls rejected", where=path, todo=AGAIN)
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(bad):
        raise FeaturesError(
            f"{len(bad)} rows have values that are not finite, the first is {image_ids[bad[0]]}", where=path
        )
    return FeatureTable(features, image_ids, sha256, attributes, rejected)


def _check_block(rows: Rows, values: Array, seen: npt.NDArray[np.bool_], dimension: int, path: Pathish) -> None:
    if values.shape != (len(rows), dimension):
        raise FeaturesError(f"a block of {values.shape} for {len(rows)} rows of {dimension} features", where=path)
    if len(rows) and (rows.min() < 0 or rows.max() >= len(seen)):
        raise FeaturesError(f"a row number outside 0 to {len(seen) - 1}", where=path)
    if len(np.unique(rows)) != len(rows) or seen[rows].any():
        raise FeaturesError("a row is written twice", where=path)
    if not np.isfinite(values).all():
        raise FeaturesError("a block has values that are not finite", where=path)


def _write_rows(features: h5py.Dataset, rows: Rows, values: Array) -> None:
    """Neighbouring rows go in one write: h5py's own fancy indexing writes them one by one, slowly."""
    order = np.argsort(rows)
    rows, values = rows[order], values[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        features[rows[start] : rows[start] + (end - start)] = values[start:end]


def _write_strings(file: h5py.File, name: str, values: Sequence[bytes], length: int, path: Pathish) -> None:
    if any(b"\0" in value or len(value) > length for value in values):
        raise FeaturesError(f"a {name} holds a NUL or is longer than {length} bytes", where=path)
    kind = h5py.string_dtype("utf-8", length)
    file.create_dataset(name, data=np.array(values, kind), dtype=kind)


def _read_attributes(file: h5py.File, path: Pathish) -> dict[str, Any]:
    """Return all root attributes as plain values; those of the format must be there and have the right types."""
    attributes = {key: _plain(value) for key, value in sorted(file.attrs.items())}
    absent = [name for name in _TABLES if name not in file] + [key for key in _TYPES if key not in attributes]
    if absent:
        raise FileFormatError(
            f"lacks {', '.join(absent)}", where=path, expected="a whole features file of this pipeline", todo=AGAIN
        )
    for key, kind in _TYPES.items():
        if type(attributes[key]) is not kind:
            raise FileFormatError(
                f"has the attribute {key} of the type {type(attributes[key]).__name__}",
                where=path,
                expected=kind.__name__,
                todo=AGAIN,
            )
    if attributes["schema"] != SCHEMA:
        raise FileFormatError(f"has the schema {attributes['schema']}", where=path, expected=str(SCHEMA), todo=AGAIN)
    if not attributes["complete"]:
        raise FileFormatError("was not written to its end", where=path, todo=AGAIN)
    return attributes


def _table(file: h5py.File, name: str, rows: int | None, path: Pathish) -> npt.NDArray[Any]:
    table = file[name]
    if isinstance(table, h5py.Dataset):
        if name == "features":
            right = table.ndim == 2 and table.dtype == np.dtype("<f4")
        else:
            right = table.ndim == 1 and table.dtype.kind == "S"
        if right and rows in (None, len(table)):
            read: npt.NDArray[Any] = table[:]
            return read
    found = f"{table.dtype} {table.shape}" if isinstance(table, h5py.Dataset) else "no dataset"
    kind = "float32 (N, D)" if name == "features" else "fixed-length UTF-8 (N,)"
    if rows is not None:
        kind += f" of {rows} rows"
    raise FileFormatError(f"has {name} as {found}", where=path, expected=kind, todo=AGAIN)


def _plain(value: Any) -> Any:
    """An HDF5 attribute as a plain Python value."""
    return value.item() if isinstance(value, np.generic) else value
