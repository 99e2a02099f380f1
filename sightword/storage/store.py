"""The store: every computed feature by its key, for all projects and machines that share a folder or a bucket.

``STORE/features/KIND/`` holds the features of one kind: ``identity.json`` describes the kind, and immutable Parquet
files, the segments, hold keys and features. A segment is named by the sha256 of its bytes: a damaged segment is told,
and its features are computed again. Nothing is locked; a killed writer leaves at most a temporary file in a folder.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sightword import machine
from sightword.errors import StoreError
from sightword.io import group_files
from sightword.io.files import Pathish, canonical_json
from sightword.io.opening import require_regular
from sightword.messages import first_line
from sightword.places.requests import Listed, Requests

log = logging.getLogger(__name__)

IDENTITY = "identity.json"
"""The file that describes a kind; its time is the last use of the kind."""
KIND_NAME = re.compile(r"[0-9a-f]{32}")
SEGMENT_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
"""Files with other names are ignored."""
KEY_LENGTH = 32
DAY = 24 * 3600.0
"""Seconds after which the description of a kind in a bucket is written again."""
PROBE = 1 << 12
"""Bytes that the disk must take before anything is computed."""
FIRST, LAST = 1.0, 120.0
"""The shortest and the longest time before a computed feature is written, in seconds."""
SHARE = 0.05
"""The most of a run's time that a killed process may lose, between these limits."""
SEGMENT_BYTES = 1 << 22
"""Features of this size are written at once, which takes about ten times as much memory."""
AT_ONCE = 4
"""Segments that are read in parallel, in memory."""
ROUNDS = 3
"""Looks at a kind whose segments are merged meanwhile."""
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


class Place:
    """The files of a store by names such as ``KIND/SEGMENT.parquet``; the text is the folder or the address.

    Methods raise OSError of the file system, or StoreError.
    """

    def __init__(self, where: str) -> None:
        self._objects = Requests(where) if machine.is_address(where) else None
        self.folder = machine.current().cache if self._objects else Path(where).expanduser()
        """A folder for files beside the features: the store's own, or a folder of copies on this machine."""

    def __str__(self) -> str:
        return self._objects.address if self._objects else str(self.folder)

    def where(self, name: str) -> str:
        """Return the place of a file, for messages."""
        return f"{self}/features/{name}"

    def kinds(self) -> list[str]:
        """Return the names of the kinds, sorted."""
        if self._objects:
            names = self._objects.folders("features")
        else:
            names = [path.name for path in self._entries("") if path.is_dir()]
        return [name for name in names if KIND_NAME.fullmatch(name)]

    def files(self, kind: str) -> dict[str, Listed]:
        """Return all files of a kind by name, also foreign ones, sorted; StoreError if the kind cannot be read."""
        if self._objects:
            return dict(sorted(self._objects.tree(f"features/{kind}").items()))
        files = {}
        for path in self._entries(kind):
            with contextlib.suppress(FileNotFoundError):
                state = path.lstat()
                files[path.name] = Listed(state.st_size, state.st_mtime)
        return files

    def open(self, name: str, listed: Listed) -> Any:
        """Return what Parquet reads parts of: a file, the copy of an object, or the object."""
        if self._objects and not self._copy(name).is_file():
            return self._objects.open(f"features/{name}", listed)
        path = self._copy(name) if self._objects else self._path(name)
        require_regular(path, any_kind=True)  # to open a pipe would wait for ever
        return path

    def read(self, name: str, is_whole: Callable[[bytes], bool] | None = None) -> bytes:
        """Return the bytes of a file; of an object its copy on this machine, if the copy is whole, and keep a copy."""
        if not self._objects:
            require_regular(self._path(name), any_kind=True)
            return self._path(name).read_bytes()
        with contextlib.suppress(OSError):
            if is_whole and is_whole(data := self._copy(name).read_bytes()):
                return data
        data = self._objects.get(f"features/{name}")
        if is_whole and is_whole(data):
            with contextlib.suppress(OSError):  # a full disk, or a folder of another user
                group_files.write_new(self._copy(name), data)
        return data

    def write(self, name: str, data: bytes) -> None:
        """Write a file that never changes, whole or not at all."""
        if self._objects:
            self._objects.put(f"features/{name}", data)
        else:
            group_files.write_new(self._path(name), data)

    def prepare(self, kind: str, record: bytes) -> None:
        """Find out that features can be written, before any are computed, and describe the kind."""
        if self._objects:
            self._objects.put_and_compare(f"features/{kind}/{IDENTITY}", record)
            return
        group_files.make_folder(self._path(kind))
        group_files.check_writable(self._path(kind), bytes(PROBE))
        self.describe(kind, record)

    def describe(self, kind: str, record: bytes, there: Listed | None = None) -> None:
        """Describe a kind whose description was lost, and set the time of its last use.

        ``there`` is the description of a bucket as listed, which is written again after a day.
        """
        if self._objects:
            if not there or there.size != len(record) or there.changed < time.time() - DAY:
                self._objects.put(f"features/{kind}/{IDENTITY}", record)
            return
        path = self._path(f"{kind}/{IDENTITY}")
        try:
            if not path.is_file() or path.read_bytes() != record:
                group_files.write_open(path, record)
            os.utime(path)
        except PermissionError as error:  # another user's file in a folder with the sticky bit; segments do not need it
            log.debug("%s: %s", path, error)

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there; a folder goes with its description, if nothing else is there."""
        if self._objects:
            self._objects.remove(f"features/{name}")
            return
        path = self._path(name)
        path.unlink(missing_ok=True)
        if path.name == IDENTITY:
            with contextlib.suppress(OSError):  # another file, or a writer's new segment
                path.parent.rmdir()

    def owns(self, name: str, *, others: bool) -> bool:
        """Return whether the user, or with ``others`` the group, may remove a file, or the file is gone already.

        A bucket has no users of its own, and says itself who may remove objects.
        """
        try:
            if self._objects or os.geteuid() in (0, self._path(name).lstat().st_uid):
                return True
            # The sticky bit protects each file from all but its owner, here also from the owner of the folder.
            return others and not self._path(name).parent.stat().st_mode & stat.S_ISVTX
        except FileNotFoundError:
            return True

    def is_closed(self, kind: str) -> bool:
        """Return whether a folder is another user's, who gave no permission to look into it."""
        path = self._path(kind)
        return not self._objects and not os.access(path, os.R_OK | os.X_OK) and not self.owns(kind, others=False)

    def _path(self, name: str) -> Path:
        return self.folder / "features" / name

    def _copy(self, name: str) -> Path:
        return self.folder / "segments" / name.rpartition("/")[2]

    def _entries(self, name: str) -> list[Path]:
        try:
            return sorted(self._path(name).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            todo = "Set SIGHTWORD_STORE to another folder."
            raise StoreError(f"cannot be read ({error.strerror})", where=self._path(name), todo=todo) from None


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

    SetupError: an address of another kind, or with credentials in it.
    """

    def __init__(self, where: Pathish) -> None:
        self.place = Place(str(where))

    def read(
        self, identity: KindIdentity, dimension: int, keys: Collection[bytes]
    ) -> Iterator[tuple[list[bytes], Array]]:
        """Yield keys and their features, float32 (n, D), as far as they are there, each checked and yielded once.

        Damaged features cause a warning.

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
                    remedy = "`sightword store prune` removes them"
                    if why.startswith("Permission"):
                        remedy = "its owner must let the group read it (chmod g+r)"
                    name = self.place.where(f"{identity.name}/{segment.name}")
                    log.warning("%s: its features cannot be used and are ignored (%s); %s", name, why, remedy)
                elif rows := {key: row for row, key in enumerate(segment.keys) if key in wanted}:
                    wanted.difference_update(rows)
                    yield [*rows], segment.values[[*rows.values()]]
        if len(wanted) < len(keys):
            with contextlib.suppress(OSError, StoreError):  # a read-only store
                self.place.describe(identity.name, _record(identity), files.get(IDENTITY))

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
                self._write(features)
            self.seconds += time.perf_counter() - started
        self._written = time.monotonic()

    def _write(self, features: Mapping[bytes, Array]) -> None:
        try:
            write(self._place, self._identity.name, features)
        except PermissionError:
            # Where the sticky bit protects another user's damaged segment of that name, halves have other names.
            if len(features) == 1:
                raise
            keys, half = list(features), len(features) // 2
            for part in (keys[:half], keys[half:]):
                self._write({key: features[key] for key in part})

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
    """Write features, float32 (D,) by key, as a segment, and return its name: equal features give equal bytes."""
    data = pack(features)
    place.write(f"{kind}/{name_of(data)}", data)
    return name_of(data)


def pack(features: Mapping[bytes, Array]) -> bytes:
    """Return the bytes of a segment."""
    keys = sorted(features)
    values = [features[key].astype("<f4", copy=False).tobytes() for key in keys]
    table = pa.table(
        {"key": pa.array(keys, pa.binary(KEY_LENGTH)), "feature": pa.array(values, pa.binary(len(values[0])))}
    )
    buffer = io.BytesIO()
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
