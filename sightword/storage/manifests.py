"""Manifests: which keys are in which segment, in object storage, where reading each segment to know would cost much.

A manifest is an immutable Parquet file with a row for each segment: its name, and the first eight bytes of each of its
keys. That is enough to find a key; the segment itself has the whole keys. A manifest may name segments that are gone,
and a segment may be in no manifest or in several: manifests only make finding quick, and never decide what is there.
The name of a segment ends with a digest of its keys, so a manifest with other keys is refused without a request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sightword.messages import first_line, short

MANIFEST_NAME = re.compile(r"[0-9a-f]{32}\.manifest")
SUFFIX = ".parquet"
"""The ending of a segment's name."""
LENGTH = 8
"""Bytes of a key in a manifest."""
MOST = 1 << 23
"""Keys in one manifest, at most, unless a single segment has more."""

Prefixes = npt.NDArray[np.uint64]
"""The first bytes of keys, as numbers, sorted."""
Contents = dict[str, Prefixes]
"""The keys of each segment, by its name."""

DIGITS = 16
"""Hex digits of the digest of a segment's keys, the second half of the segment's name."""

_COLUMNS = pa.schema([("segment", pa.string()), ("keys", pa.large_binary())])
DAMAGED = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError)
"""Errors of pyarrow for truncated and garbled files, as found by flipping each byte."""


def prefixes(keys: Iterable[bytes]) -> Prefixes:
    """Return the prefixes of keys, sorted, each once."""
    return distinct(np.frombuffer(b"".join(key[:LENGTH] for key in keys), ">u8").astype(np.uint64))


def distinct(values: Prefixes) -> Prefixes:
    """Return prefixes sorted, each once; NumPy's ``unique`` takes many times as long, by a table of hashes."""
    found = np.sort(values)
    first = np.ones(len(found), bool)
    first[1:] = found[1:] != found[:-1]
    return found[first]


def digest(keys: Prefixes) -> str:
    """Return the digest of a segment's keys, hex digits."""
    return hashlib.sha256(keys.astype(">u8").tobytes()).hexdigest()[:DIGITS]


def pack(contents: Mapping[str, Prefixes]) -> tuple[str, bytes]:
    """Return the name and the bytes of a manifest; the same contents give the same."""
    names = sorted(contents)
    keys = [contents[name].astype(">u8").tobytes() for name in names]
    buffer = pa.BufferOutputStream()
    plain = {"compression": "NONE", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table({"segment": names, "keys": keys}, schema=_COLUMNS), buffer, **plain)
    data = buffer.getvalue().to_pybytes()
    return name_of(data), data


def packs(contents: Mapping[str, Prefixes]) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of as many manifests as hold the contents."""
    some: Contents = {}
    count = 0
    for name in sorted(contents):
        count += len(contents[name])
        if some and count > MOST:
            yield pack(some)
            some, count = {}, len(contents[name])
        some[name] = contents[name]
    if some:
        yield pack(some)


def name_of(data: bytes) -> str:
    """Return the name of a manifest: the first 32 hex digits of the sha256 of its bytes."""
    return hashlib.sha256(data).hexdigest()[:32] + ".manifest"


def unpack(name: str, data: bytes) -> Contents:
    """Return the contents of a manifest.

    Raises:
        ValueError: its bytes are not those of its name, it has other columns, or other keys than a segment has.
    """
    if name_of(data) != name:
        raise ValueError("its bytes are not those of its name")
    try:
        table = pq.read_table(pa.BufferReader(data), columns=_COLUMNS.names)
        if table.schema != _COLUMNS or any(table[column].null_count for column in _COLUMNS.names):
            raise ValueError("its columns are not a manifest's")
        rows = zip(*(table[column].to_pylist() for column in _COLUMNS.names), strict=True)
        contents = {segment: np.frombuffer(keys, ">u8").astype(np.uint64) for segment, keys in rows}
    except DAMAGED as error:
        raise ValueError(short(first_line(error))) from None
    for segment, keys in contents.items():
        if segment[DIGITS:] != f"{digest(keys)}{SUFFIX}":
            raise ValueError(f"its keys are not those of {short(segment)}")
    return contents
