"""A segment of the store: an immutable Parquet file of features, each with its key and its checksum."""

from __future__ import annotations

import errno
import hashlib
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sightword import group_files
from sightword.files import require_regular

SUFFIX = ".parquet"
SEGMENT_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
"""Other files in a store are not its own, and are left alone."""
KEY_LENGTH = 32
GROUP = 256
"""Features a row group: what a reader holds at a time."""
MARKS = 8
"""Names that are tried where others' damaged files have them."""

_GONE = (errno.ENOENT, errno.ESTALE)
# What pyarrow raises on files that are cut off or garbled, as found by flipping each byte.
_DAMAGED = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError)

Array = npt.NDArray[np.float32]
Complaint = Callable[[Path, int, str], None]
"""Told of a segment, how many of its features are lost (0: all, number unknown), and why."""


def write_segment(folder: Path, features: Mapping[bytes, Array]) -> Path:
    """Write a segment, which appears whole or not at all.

    Its name is the sha256 of its bytes: the same features give the same file, so that
    two writers cannot be in each other's way. It is read-only. Where a damaged one has
    its name and is another user's to replace, it is written once more with a mark
    that changes its bytes, and so its name.

    Args:
        folder: of one kind of feature.
        features: float32 (D,) by key, at least one.

    Raises:
        OSError: what the file system says; nothing is left behind.
    """
    keys = sorted(features)
    values = [features[key].astype("<f4", copy=False).tobytes() for key in keys]
    columns = {
        "key": pa.array(keys, pa.binary(KEY_LENGTH)),
        "check": pa.array([_check(*pair) for pair in zip(keys, values, strict=True)], pa.binary(KEY_LENGTH)),
        "feature": pa.array(values, pa.binary(len(values[0]))),
    }
    for mark in range(MARKS):
        table = pa.table(columns).replace_schema_metadata({"mark": str(mark)} if mark else None)
        data = _encode(table)
        path = folder / name_of(data)
        try:
            group_files.write_new(path, data)
            break
        except PermissionError:
            if mark == MARKS - 1 or not path.exists():
                raise
    return path


def _encode(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        compression="NONE",
        use_dictionary=False,
        write_statistics=False,
        row_group_size=GROUP,
    )
    return buffer.getvalue()


def name_of(data: bytes) -> str:
    """The name of a segment: the first 32 hex digits of the sha256 of its bytes."""
    return hashlib.sha256(data).hexdigest()[:32] + SUFFIX


def read_segment(
    path: Path, dimension: int | None, wanted: Collection[bytes] | None, complain: Complaint
) -> Iterator[tuple[list[bytes], Array]]:
    """The wanted features of a segment, each checked; what is damaged is complained of and left out.

    Args:
        path: the segment.
        dimension: D; None for whatever it is.
        wanted: keys; None for all.
        complain: told what is damaged.

    Yields:
        Keys and their float32 (n, D). Nothing for a segment that was pruned meanwhile.
    """
    try:
        require_regular(path)
        with pq.ParquetFile(path) as file:
            width = _width(file.schema_arrow)
            if width is None or (dimension and width != dimension):
                complain(path, 0, f"it holds no features of {dimension or 'any'} numbers")
                return
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            if sum(sizes) != file.metadata.num_rows:
                complain(path, 0, "its groups are not all there")
            for group, size in enumerate(sizes):
                keys = file.read_row_group(group, columns=["key"])["key"].to_pylist()
                if len(keys) != size:
                    complain(path, 0, "its keys are not all there")
                if wanted is None or any(key is None or key in wanted for key in keys):
                    yield _sound(file.read_row_group(group), wanted, width, path, complain)
    except _DAMAGED as error:
        if not isinstance(error, OSError) or error.errno not in _GONE:
            why = getattr(error, "strerror", None) or str(error)
            complain(path, 0, (why.splitlines() or [type(error).__name__])[0])


def _width(schema: pa.Schema) -> int | None:
    """The numbers of a feature; None where these are no columns of a segment."""
    kinds = [schema.field(name).type for name in ("key", "check", "feature")]
    if kinds[:2] != [pa.binary(KEY_LENGTH)] * 2 or not pa.types.is_fixed_size_binary(kinds[2]):
        return None
    width, rest = divmod(int(kinds[2].byte_width), 4)
    return width if width and not rest else None


def _sound(
    table: pa.Table, wanted: Collection[bytes] | None, dimension: int, path: Path, complain: Complaint
) -> tuple[list[bytes], Array]:
    """The wanted rows of a row group whose checksum fits."""
    rows = zip(*(table[name].to_pylist() for name in ("key", "check", "feature")), strict=True)
    sound: list[bytes] = []
    values: list[bytes] = []
    damaged = 0
    for key, check, value in rows:
        if wanted is not None and key is not None and key not in wanted:
            continue
        if None in (key, check, value) or _check(key, value) != check:
            damaged += 1
            continue
        sound.append(key)
        values.append(value)
    if damaged:
        complain(path, damaged, "their checksums do not fit")
    return sound, np.frombuffer(b"".join(values), "<f4").astype(np.float32, copy=False).reshape(-1, dimension)


def _check(key: bytes, value: bytes) -> bytes:
    return hashlib.sha256(key + value).digest()
