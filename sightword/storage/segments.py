"""A segment of the store: an immutable Parquet file of features, each with its key and its checksum."""

from __future__ import annotations

import errno
import hashlib
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sightword.messages import first_line
from sightword.storage.manifests import DAMAGED, DIGITS, SUFFIX, digest, prefixes

SEGMENT_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
"""Files with other names are ignored."""
KEY_LENGTH = 32
GROUP = 256
"""Features in a row group, the unit that a reader holds in memory."""
_GONE = (errno.ENOENT, errno.ESTALE)

Array = npt.NDArray[np.float32]


class StoredFile(Protocol):
    """A file of a store, which may be gone; its text is the place, for messages. Methods raise OSError."""

    @property
    def name(self) -> str:
        """The name within the kind."""

    def size(self) -> int:
        """Return the size in bytes; 0 if it is unknown."""

    def changed(self) -> float | None:
        """Return the time of the last change, in seconds since 1970; None if it is unknown."""

    def read(self) -> bytes:
        """Return the bytes as they are stored."""

    def owns(self, *, others: bool) -> bool:
        """Return whether the user may remove the file by the rules of a shared store, or the file is gone already."""
        del others  # a bucket has no users of its own, and says itself who may remove objects
        return True

    def remove(self) -> None:
        """Remove the file, if it is still there."""

    def open(self) -> Path | pa.BufferReader:
        """Return what Parquet reads of a segment; perhaps of a copy on this machine."""

    def remedy(self) -> str:
        """Return what can be done if the features of a segment cannot be used."""
        return "`sightword store prune` removes them"


Complaint = Callable[[StoredFile, int, str], None]
"""Receives a damaged segment, the number of lost features (0: all or an unknown number), and the reason."""


def pack(features: Mapping[bytes, Array], mark: int = 0) -> bytes:
    """Return features, float32 (D,) by key, as the bytes of a segment: the same features give the same bytes.

    Another mark gives other bytes, and so another name.
    """
    keys = sorted(features)
    values = [features[key].astype("<f4", copy=False).tobytes() for key in keys]
    columns = {
        "key": pa.array(keys, pa.binary(KEY_LENGTH)),
        "check": pa.array([_check(*pair) for pair in zip(keys, values, strict=True)], pa.binary(KEY_LENGTH)),
        "feature": pa.array(values, pa.binary(len(values[0]))),
    }
    table = pa.table(columns).replace_schema_metadata({"mark": str(mark)} if mark else None)
    buffer = io.BytesIO()
    plain = {"compression": "NONE", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, buffer, row_group_size=GROUP, **plain)
    return buffer.getvalue()


def name_of(data: bytes) -> str:
    """Return the name of a segment: hex digits of the sha256 of its bytes, and of the digest of its keys."""
    try:
        keys = keys_of(data)
    except ValueError:  # damaged: the first half of the name differs too
        keys = []
    return hashlib.sha256(data).hexdigest()[:DIGITS] + digest(prefixes(keys)) + SUFFIX


def read_segment(
    segment: StoredFile, dimension: int | None, wanted: Collection[bytes] | None, complain: Complaint
) -> Iterator[tuple[list[bytes], Array]]:
    """Yield the wanted keys of a segment (None: all) and their features, float32 (n, D), each checked.

    Damaged features, or another D (None: any), are reported and skipped; nothing is yielded if the segment is gone.
    """
    try:
        with pq.ParquetFile(segment.open()) as file:
            width = _width(file.schema_arrow)
            if width is None or (dimension and width != dimension):
                complain(segment, 0, f"it holds no features of {dimension or 'any'} numbers")
                return
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            if sum(sizes) != file.metadata.num_rows:
                complain(segment, 0, "its groups are not all there")
            for group, size in enumerate(sizes):
                keys = file.read_row_group(group, columns=["key"])["key"].to_pylist()
                if len(keys) != size:
                    complain(segment, 0, "its keys are not all there")
                if wanted is None or any(key is None or key in wanted for key in keys):
                    yield _sound(file.read_row_group(group), wanted, width, segment, complain)
    except DAMAGED as error:
        if not isinstance(error, OSError) or error.errno not in _GONE:
            complain(segment, 0, first_line(getattr(error, "strerror", None) or error))


def keys_of(data: bytes) -> list[bytes]:
    """Return the keys of a segment, given its bytes; ValueError if it is damaged."""
    try:
        keys = pq.read_table(pa.BufferReader(data), columns=["key"])["key"]
        if keys.type != pa.binary(KEY_LENGTH) or keys.null_count:
            raise ValueError("its keys are not all there")
        return list(keys.to_pylist())
    except DAMAGED as error:
        raise ValueError(first_line(error)) from None


def _width(schema: pa.Schema) -> int | None:
    """Return D; None for columns that are not a segment's."""
    kinds = [schema.field(name).type for name in ("key", "check", "feature")]
    if kinds[:2] != [pa.binary(KEY_LENGTH)] * 2 or not pa.types.is_fixed_size_binary(kinds[2]):
        return None
    width, rest = divmod(int(kinds[2].byte_width), 4)
    return width if width and not rest else None


def _sound(
    table: pa.Table, wanted: Collection[bytes] | None, dimension: int, segment: StoredFile, complain: Complaint
) -> tuple[list[bytes], Array]:
    """Return the wanted rows of a row group whose checksums are right."""
    rows = zip(*(table[name].to_pylist() for name in ("key", "check", "feature")), strict=True)
    rows_wanted = [row for row in rows if wanted is None or row[0] is None or row[0] in wanted]
    sound = [
        (key, value) for key, check, value in rows_wanted if None not in (key, value) and _check(key, value) == check
    ]
    if len(sound) < len(rows_wanted):
        complain(segment, len(rows_wanted) - len(sound), "their checksums do not fit")
    values = np.frombuffer(b"".join(value for _, value in sound), "<f4").astype(np.float32, copy=False)
    return [key for key, _ in sound], values.reshape(-1, dimension)


def _check(key: bytes, value: bytes) -> bytes:
    return hashlib.sha256(key + value).digest()
