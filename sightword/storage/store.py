"""The store: every computed feature by its key, for all projects and machines that share a folder or a bucket.

``STORE/features/KIND/`` holds the features of one kind: ``identity.json`` describes the kind, and immutable Parquet
files, the segments, hold keys and features. A segment is named by the sha256 of its bytes: a damaged segment is told,
and its features are computed again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sightword.errors import StoreError
from sightword.io.files import Pathish, canonical_json
from sightword.messages import first_line
from sightword.places.requests import Listed
from sightword.storage.place import IDENTITY, Place

log = logging.getLogger(__name__)

SEGMENT_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
"""Files with other names are ignored."""
KEY_LENGTH = 32
FIRST, LAST = 1.0, 120.0
"""The shortest and the longest time before a computed feature is written, in seconds."""
SHARE = 0.05
"""The most of a run's time that a killed process may lose, between these limits."""
SEGMENT_BYTES = 1 << 22
"""Features of this size are written at once, which takes about ten times as much memory."""
AT_ONCE = 4
"""Segments that are read side by side, in memory."""
ROUNDS = 3
"""Looks at a kind whose segments are merged meanwhile."""
MARKS = 8
"""Names that are tried if damaged files of other users have them."""
_DAMAGED = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError)
"""Errors of pyarrow for truncated and garbled files, as flips of each byte show."""

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class KindIdentity:
    """All that determines the stored vectors of a kind, besides the picture or the text: the base of such records."""

    def as_json(self) -> str:
        """Return the record as JSON with sorted keys."""
        return canonical_json(asdict(self))

    @property
    def name(self) -> str:
        """The kind's folder in a store: 32 hex digits of the sha256 of :meth:`as_json`."""
        return kind_name(self.as_json())


def kind_name(record: str) -> str:
    """Return the name of the folder for an identity's JSON."""
    return hashlib.sha256(record.encode()).hexdigest()[:32]


class Segment(NamedTuple):
    """What a look at a segment shows."""

    name: str
    state: str
    """``whole``, ``other`` (without wanted keys), ``gone``, ``damaged``, or ``withheld`` for now."""
    why: str = ""
    keys: Sequence[bytes] = ()
    values: Array = np.zeros((0, 0), np.float32)
    """Features, (n, D), where they were read."""


class Store:
    """A store of features in a folder, or at an address such as ``s3://bucket/prefix``; the first write makes it.

    Raises:
        SetupError: an address of another kind, or one with credentials in it.
    """

    def __init__(self, where: Pathish) -> None:
        self.place = Place(str(where))

    def read(
        self, identity: KindIdentity, dimension: int, keys: Collection[bytes]
    ) -> Iterator[tuple[list[bytes], Array]]:
        """Yield keys and their features, float32 (n, D), as far as they are there, each checked and yielded once.

        Damaged features cause a warning.

        Raises:
            StoreError: the store cannot be read.
        """
        wanted = set(keys)
        tried: set[str] = set()
        gone, files = True, dict[str, Listed]()
        for _ in range(ROUNDS):
            if not wanted or not gone:
                break
            gone, files = False, self.place.files(identity.name)
            new = {name: listed for name, listed in files.items() if name not in tried}
            tried.update(new)
            for segment in segments(self.place, identity.name, new, wanted):
                gone |= segment.state == "gone"
                why = segment.why
                if segment.state == "whole" and segment.values.shape[1] != dimension:
                    why = f"it holds no features of {dimension} numbers"
                if why:
                    self._warn(f"{identity.name}/{segment.name}", why)
                elif rows := [row for row, key in enumerate(segment.keys) if key in wanted]:
                    wanted.difference_update(segment.keys)
                    yield [segment.keys[row] for row in rows], segment.values[rows]
        if len(wanted) < len(keys):
            with contextlib.suppress(OSError, StoreError):  # a read-only store
                self.place.describe(identity.name, _record(identity), files.get(IDENTITY))

    def _warn(self, name: str, why: str) -> None:
        remedy = "`sightword store prune` removes them"
        if why.startswith("Permission"):
            remedy = "its owner must let the group read it (chmod g+r)"
        log.warning("%s: its features cannot be used and are ignored (%s); %s", self.place.where(name), why, remedy)

    def writer(self, identity: KindIdentity) -> Writer:
        """Return a context manager that writes features of one kind; StoreError if the store cannot be written."""
        with _told(self.place):
            self.place.prepare(identity.name, _record(identity))
        return Writer(self.place, identity)


class Writer:
    """Collects features and writes them in segments; the rest at exit, after an error too."""

    def __init__(self, place: Place, identity: KindIdentity) -> None:
        self.seconds = 0.0
        """Time spent writing."""
        self._place, self._identity = place, identity
        self._waiting: dict[bytes, Array] = {}
        self._bytes = 0
        self._started = self._written = time.monotonic()

    def put(self, key: bytes, feature: Array) -> None:
        """Add a feature, float32 (D,); StoreError if a segment cannot be written."""
        self._waiting[key] = feature
        self._bytes += feature.nbytes
        now = time.monotonic()
        patience = min(max(FIRST, SHARE * (now - self._started)), LAST)
        if self._bytes >= SEGMENT_BYTES or now - self._written >= patience:
            self.flush()

    def flush(self) -> None:
        """Write what was put; StoreError if it cannot be written."""
        features, self._waiting, self._bytes = self._waiting, {}, 0
        if features:
            started = time.perf_counter()
            with _told(self._place):
                write(self._place, self._identity.name, features)
                self._place.describe(self._identity.name, _record(self._identity), written=True)
            self.seconds += time.perf_counter() - started
        self._written = time.monotonic()

    @contextlib.contextmanager
    def flushed(self) -> Iterator[None]:
        """Flush at the end of the block, also after an error, which is the one that is raised."""
        try:
            yield
        except BaseException:
            try:
                self.flush()
            except StoreError as problem:
                log.warning("%s", problem)
            raise
        self.flush()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        with self.flushed():
            if error is not None:
                raise error


def write(place: Place, kind: str, features: Mapping[bytes, Array]) -> str:
    """Write features, float32 (D,) by key, as a segment, and return its name: equal features give equal bytes.

    If a damaged segment of another user has the name and cannot be replaced, a mark changes the bytes and the name.
    """
    for mark in range(MARKS):
        data = pack(features, mark)
        name = name_of(data)
        try:
            place.write(f"{kind}/{name}", data)
            break
        except PermissionError:
            if mark == MARKS - 1 or name not in place.files(kind):
                raise
    return name


def pack(features: Mapping[bytes, Array], mark: int = 0) -> bytes:
    """Return the bytes of a segment; another mark gives other bytes."""
    keys = sorted(features)
    values = [features[key].astype("<f4", copy=False).tobytes() for key in keys]
    table = pa.table(
        {"key": pa.array(keys, pa.binary(KEY_LENGTH)), "feature": pa.array(values, pa.binary(len(values[0])))}
    )
    buffer = io.BytesIO()
    table = table.replace_schema_metadata({"mark": str(mark)} if mark else None)
    pq.write_table(table, buffer, compression="NONE", use_dictionary=False, write_statistics=False)
    return buffer.getvalue()


def name_of(data: bytes) -> str:
    """Return the name of a segment: 32 hex digits of the sha256 of its bytes."""
    return hashlib.sha256(data).hexdigest()[:32] + ".parquet"


def segments(
    place: Place,
    kind: str,
    files: Mapping[str, Listed],
    wanted: Collection[bytes] | None = None,
    *,
    keys_only: bool = False,
) -> Iterator[Segment]:
    """Look at the segments among files of a kind, and yield what each shows, in the order of ``files``.

    Args:
        place: the files of the store.
        kind: the name of the kind.
        files: a listing of files.
        wanted: read the features of segments with one of these keys, until none is left here; None: of all.
        keys_only: read the keys alone, and do not compare checksums.

    Raises:
        StoreError: the server does not answer.
    """

    def look(name: str) -> Segment:
        try:
            return _look(place, f"{kind}/{name}", files[name], wanted, keys_only=keys_only)
        except MemoryError:
            return Segment(name, "withheld", "it does not fit in memory")
        except _DAMAGED as error:
            number = error.errno if isinstance(error, OSError) else None
            if number in (errno.ENOENT, errno.ESTALE):
                return Segment(name, "gone")
            # A circular link and a pipe are never a segment; other errors of the system may pass.
            state = "damaged" if number in (None, errno.ELOOP, errno.EINVAL) else "withheld"
            return Segment(name, state, first_line(getattr(error, "strerror", None) or error))

    names = [name for name in files if SEGMENT_NAME.fullmatch(name)]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="store") as pool:
        for start in range(0, len(names), AT_ONCE):
            if wanted is None or wanted:
                yield from pool.map(look, names[start : start + AT_ONCE])


def _look(place: Place, path: str, listed: Listed, wanted: Collection[bytes] | None, *, keys_only: bool) -> Segment:
    name = path.rpartition("/")[2]
    if wanted is not None or keys_only:
        keys = _keys(pq.read_table(place.open(path, listed), columns=["key"])["key"])
        if wanted is None or not any(key in wanted for key in keys):
            return Segment(name, "other", keys=keys)
    data = place.read(path, lambda data: name_of(data) == name)
    if name_of(data) != name:
        return Segment(name, "damaged", "its bytes are not those of its name")
    table = pq.read_table(pa.BufferReader(data), columns=["key", "feature"]).combine_chunks()
    keys, column = _keys(table["key"]), table["feature"]
    if not pa.types.is_fixed_size_binary(column.type) or column.type.byte_width % 4 or column.null_count:
        raise ValueError("it holds no features")
    values = np.frombuffer(b"".join(column.to_pylist()), "<f4").astype(np.float32, copy=False)
    return Segment(name, "whole", "", keys, values.reshape(len(keys), -1))


def _keys(column: pa.ChunkedArray) -> list[bytes]:
    if column.type != pa.binary(KEY_LENGTH) or column.null_count:
        raise ValueError("it holds no keys")
    return list(column.to_pylist())


def _record(identity: KindIdentity) -> bytes:
    return f"{identity.as_json()}\n".encode()


@contextlib.contextmanager
def _told(place: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        todo = "Make room or give permission there, or name another folder (SIGHTWORD_STORE). Stored features stay, "
        todo += "and the next run continues with them."
        what = f"the store cannot be written ({error.strerror or error})"
        raise StoreError(what, where=place, todo=todo) from None
