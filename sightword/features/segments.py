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
from sightword.messages import first_line

SUFFIX = ".parquet"
SEGMENT_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
"""Files with other names are ignored."""
KEY_LENGTH = 32
GROUP = 256
"""Features in a row group, the unit that a reader holds in memory."""
MARKS = 8
"""Names that are tried if damaged files of other users have them."""

_GONE = (errno.ENOENT, errno.ESTALE)
# The errors of pyarrow for truncated and garbled files, as found by flipping each byte.
_DAMAGED = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError)

Array = npt.NDArray[np.float32]
Complaint = Callable[[Path, int, str], None]
"""Receives a damaged segment, the number of lost features (0: all or an unknown number), and the reason."""


def write_segment(folder: Path, features: Mapping[bytes, Array]) -> Path:
    """Write features, float32 (D,) by key, as a read-only segment, whole or not at all, and return its path.

    The name is the sha256 of the bytes: the same features give the same file, so that two writers do not conflict. If a
    damaged segment of another user has the name and cannot be replaced, a mark changes the bytes and the name. OSErrors
    are of the file system; nothing is left behind.
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
        buffer = io.BytesIO()
        plain = {"compression": "NONE", "use_dictionary": False, "write_statistics": False}
        pq.write_table(table, buffer, row_group_size=GROUP, **plain)
        path = folder / name_of(buffer.getvalue())
        try:
            group_files.write_new(path, buffer.getvalue())
            break
        except PermissionError:
            if mark == MARKS - 1 or not path.exists():
                raise
    return path


def name_of(data: bytes) -> str:
    """Return the name of a segment: the first 32 hex digits of the sha256 of its bytes."""
    return hashlib.sha256(data).hexdigest()[:32] + SUFFIX


def read_segment(
    path: Path, dimension: int | None, wanted: Collection[bytes] | None, complain: Complaint
) -> Iterator[tuple[list[bytes], Array]]:
    """Yield the wanted keys of a segment (None: all) and their features, float32 (n, D), each checked.

    Damaged features, or another D (None: any), are reported and skipped; nothing is yielded if the segment is gone.
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
            complain(path, 0, first_line(getattr(error, "strerror", None) or error))


def _width(schema: pa.Schema) -> int | None:
    """Return D; None for columns that are not a segment's."""
    kinds = [schema.field(name).type for name in ("key", "check", "feature")]
    if kinds[:2] != [pa.binary(KEY_LENGTH)] * 2 or not pa.types.is_fixed_size_binary(kinds[2]):
        return None
    width, rest = divmod(int(kinds[2].byte_width), 4)
    return width if width and not rest else None


def _sound(
    table: pa.Table, wanted: Collection[bytes] | None, dimension: int, path: Path, complain: Complaint
) -> tuple[list[bytes], Array]:
    """Return the wanted rows of a row group whose checksums are right."""
    rows = zip(*(table[name].to_pylist() for name in ("key", "check", "feature")), strict=True)
    rows_wanted = [row for row in rows if wanted is None or row[0] is None or row[0] in wanted]
    sound = [
        (key, value) for key, check, value in rows_wanted if None not in (key, value) and _check(key, value) == check
    ]
    if len(sound) < len(rows_wanted):
        complain(path, len(rows_wanted) - len(sound), "their checksums do not fit")
    values = np.frombuffer(b"".join(value for _, value in sound), "<f4").astype(np.float32, copy=False)
    return [key for key, _ in sound], values.reshape(-1, dimension)


def _check(key: bytes, value: bytes) -> bytes:
    return hashlib.sha256(key + value).digest()
