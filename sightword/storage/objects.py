"""A store in object storage: the files of a folder's store as objects, and manifests that say where each key is.

Objects are immutable and named by their hash, so nothing is locked. Manifests and listings are hints: readers verify
every segment by its hash.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sightword import machine
from sightword.errors import StoreError
from sightword.places.requests import Listed, Requests
from sightword.storage import manifests
from sightword.storage.kinds import IDENTITY, KIND_NAME, KindFiles
from sightword.storage.manifests import MANIFEST_NAME, Contents, prefixes
from sightword.storage.object_files import AT_ONCE, Copies, ObjectFile, ahead
from sightword.storage.segments import SEGMENT_NAME, Array, StoredFile, keys_of, name_of, pack

log = logging.getLogger(__name__)

IN_MANIFEST = 16
"""Segments of a writer that share a manifest."""
ROUNDS = 3
"""Looks at the kind, if segments go away meanwhile."""
DAY = 24 * 3600.0
"""Seconds after which the time of the last use is set again."""


class ObjectPlace:
    """A store at an address such as ``s3://bucket/prefix``."""

    def __init__(self, address: str) -> None:
        self._requests = Requests(address)

    def __str__(self) -> str:
        return self._requests.address

    @property
    def folder(self) -> Path:
        """The folder of copies on this machine."""
        return machine.current().cache

    def exists(self) -> bool:
        """Return whether there are features."""
        return bool(self._requests.folders("features"))

    def kind(self, name: str) -> KindFiles:
        """Return the files of a kind, whether or not there are some."""
        return ObjectKind(self._requests, name, Copies(self.folder / "segments"))

    def kinds(self) -> list[KindFiles]:
        """Return the kinds that are there, by name; StoreError if the store cannot be read."""
        return [self.kind(name) for name in self._requests.folders("features") if KIND_NAME.fullmatch(name)]

    def try_out(self) -> None:
        """Find out that objects can be listed, written, read and removed; StoreError if not."""
        self._requests.folders("features")
        name = f"probe-{secrets.token_hex(6)}"
        self._requests.put_and_compare(name, secrets.token_bytes(64))
        self._requests.remove(name)


class ObjectKind(KindFiles):
    """The objects of one kind."""

    def __init__(self, requests: Requests, name: str, copies: Copies) -> None:
        self.name, self._requests, self._copies = name, requests, copies
        self._below = f"features/{name}"
        self._listed: dict[str, Listed] = {}
        """The last listing."""
        self._written: Contents = {}
        """Segments that wait for a manifest."""

    def __str__(self) -> str:
        return f"{self._requests.address}/{self._below}"

    def names(self) -> Iterable[str]:
        """Return the names of all objects, from a new listing; StoreError if the kind cannot be read."""
        self._listed = self._requests.listing(self._below)
        return self._listed

    def file(self, name: str) -> ObjectFile:
        """Return an object, with what the last listing says of it."""
        return ObjectFile(self._requests, f"{self._below}/{name}", self._listed.get(name))

    def prepare(self, record: bytes) -> None:
        """Describe the kind, which shows that objects can be written and are kept; StoreError if not."""
        self._requests.put_and_compare(f"{self._below}/{IDENTITY}", record)

    def mark_used(self, record: bytes) -> None:
        """Describe the kind where that was lost, or a day ago or more: the time of that is the last use."""
        there = self._listed.get(IDENTITY)
        if there and there.size == len(record) and (there.changed or 0.0) > time.time() - DAY:
            return
        try:
            self._requests.put(f"{self._below}/{IDENTITY}", record)
        except StoreError as error:  # a read-only key
            log.debug("%s", error)

    def find(self, wanted: Set[bytes]) -> Generator[StoredFile, None, None]:
        """Yield segments with wanted keys: first those of manifests, then those that no manifest names.

        Raises:
            StoreError: the kind cannot be read.
        """
        tried: set[str] = set()
        for _ in range(ROUNDS):
            self.names()
            contents, damage = self._contents()
            for what in damage.values():
                log.warning("%s; `sightword store compact` replaces it", what)
            gone: list[str] = []
            while wanted and (chosen := _chosen(contents, wanted, tried)):
                tried.update(chosen)
                with contextlib.closing(self._copied(chosen, gone)) as segments:
                    yield from segments
            unnamed = sorted(self._segments() - contents.keys() - tried)
            if wanted and unnamed:
                tried.update(unnamed)
                with contextlib.closing(self._unnamed(unnamed, gone)) as segments:
                    yield from segments
            if not wanted or not gone:
                break

    def ahead(self, segments: Sequence[StoredFile]) -> Iterator[StoredFile]:
        """Yield segments, the next ones being downloaded meanwhile; memory holds a few."""
        return ahead([self.file(segment.name) for segment in segments], lambda file: file.read())

    def count(self, damaged: list[str]) -> int | None:
        """Return the number of different features in the manifests and in segments that no manifest names.

        Descriptions of damaged manifests are added to ``damaged``.
        """
        self.names()
        contents, damage = self._all_contents()
        damaged += damage.values()
        return len(manifests.distinct(np.concatenate(list(contents.values())))) if contents else 0

    def write(self, features: Mapping[bytes, Array]) -> StoredFile:
        """Write features, float32 (D,) by key, as a segment in one request; StoreError if that is refused."""
        data = pack(features)
        name = name_of(data)
        self._requests.put(f"{self._below}/{name}", data)
        self._written[name] = prefixes(features)
        if len(self._written) >= IN_MANIFEST:
            self.finish()
        return ObjectFile(self._requests, f"{self._below}/{name}", Listed(len(data), time.time()))

    def finish(self) -> None:
        """Write a manifest of the segments that were written; without it they are found by the listing."""
        written, self._written = self._written, {}
        self._tell_of(written)

    def compact(self, *, dry_run: bool) -> int:
        """Replace all manifests by one, or by a few large ones, of the segments that are there; return their number.

        Manifests of other processes that are written meanwhile stay.
        """
        self.names()
        old = self._manifests()
        contents, damage = self._all_contents()
        new = dict(manifests.packs(contents))
        if not dry_run:
            for name in new.keys() - (old - damage.keys()):
                self._requests.put(f"{self._below}/{name}", new[name])
            for name in old - new.keys():
                self._requests.remove(f"{self._below}/{name}")
        return len(old - (new.keys() - damage.keys()))

    def _segments(self) -> set[str]:
        return {name for name in self._listed if SEGMENT_NAME.fullmatch(name)}

    def _manifests(self) -> set[str]:
        return {name for name in self._listed if MANIFEST_NAME.fullmatch(name)}

    def _contents(self) -> tuple[Contents, dict[str, str]]:
        """Return what the manifests say of segments that are there, and descriptions of damaged manifests by name."""
        found: Contents = {}
        damage: dict[str, str] = {}
        names = sorted(self._manifests())
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="store") as pool:
            for name, read in zip(names, pool.map(self._manifest, names), strict=True):
                if isinstance(read, ValueError):
                    damage[name] = f"{self}/{name}: the manifest cannot be used ({read})"
                else:
                    found.update((segment, keys) for segment, keys in read.items() if segment in self._listed)
        return found, damage

    def _manifest(self, name: str) -> Contents | ValueError:
        try:
            return manifests.unpack(name, self._copies.read(name, manifests.name_of, self.file(name).read))
        except FileNotFoundError:  # another process has merged it meanwhile
            return {}
        except ValueError as error:
            return error

    def _all_contents(self) -> tuple[Contents, dict[str, str]]:
        """Return the same, with segments that no manifest names, which are downloaded."""
        contents, damage = self._contents()
        for segment in self._copied(sorted(self._segments() - contents.keys()), []):
            contents |= _keys(segment)
        return contents, damage

    def _copied(self, names: Iterable[str], gone: list[str]) -> Generator[ObjectFile, None, None]:
        """Yield segments that are read from copies or downloaded; the names of those that went away are added."""

        def read(file: ObjectFile) -> bytes:
            try:
                return self._copies.read(file.name, name_of, file.read)
            except FileNotFoundError:
                gone.append(file.name)
                raise

        return ahead([self.file(name) for name in names], read)

    def _unnamed(self, names: Sequence[str], gone: list[str]) -> Generator[ObjectFile, None, None]:
        """Yield segments that no manifest names, and write a manifest of those, for the next reader."""
        contents: Contents = {}
        log.debug("%s: %d segments are in no manifest", self, len(names))
        try:
            with contextlib.closing(self._copied(names, gone)) as segments:
                for segment in segments:
                    contents |= _keys(segment)
                    yield segment
        finally:
            self._tell_of(contents)

    def _tell_of(self, contents: Contents) -> None:
        """Write manifests, which others can do without."""
        try:
            for name, data in manifests.packs(contents):
                self._requests.put(f"{self._below}/{name}", data)
        except StoreError as error:  # a read-only key
            log.debug("%s", error)


def _keys(segment: ObjectFile) -> Contents:
    """Return the contents of a segment that is whole; nothing for another one, or one that is gone."""
    try:
        data = segment.read()
        return {segment.name: prefixes(keys_of(data))} if name_of(data) == segment.name else {}
    except (FileNotFoundError, ValueError):
        return {}


def _chosen(contents: Contents, wanted: Iterable[bytes], tried: Set[str]) -> list[str]:
    """Return segments that hold all wanted keys that are in any segment not tried before; large ones first."""
    sought = prefixes(wanted)
    covered = np.zeros(len(sought), bool)
    chosen = []
    for name in sorted(contents.keys() - tried, key=lambda name: (-len(contents[name]), name)):
        places = np.searchsorted(sought, contents[name])
        inside = places < len(sought)
        places = places[inside]
        hits = places[sought[places] == contents[name][inside]]
        if not covered[hits].all():
            covered[hits] = True
            chosen.append(name)
    return chosen
