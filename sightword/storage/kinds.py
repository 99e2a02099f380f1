"""The files of one kind of features, in a folder or in object storage."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from sightword.io.files import canonical_json
from sightword.storage.manifests import MANIFEST_NAME
from sightword.storage.segments import SEGMENT_NAME, Array, StoredFile

IDENTITY = "identity.json"
"""The name of the file that describes a kind."""
KIND_NAME = re.compile(r"[0-9a-f]{32}")
LEFTOVER = re.compile(r"\.([0-9a-f]{32}\.parquet|identity\.json|probe)\..*\.tmp")
"""Temporary files of processes."""
_OWN = re.compile("|".join(name.pattern for name in (SEGMENT_NAME, MANIFEST_NAME, LEFTOVER)))


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


class KindFiles:
    """The files of one kind of features; the text is the place, for messages.

    A folder and object storage each implement the methods that raise NotImplementedError. Methods raise OSError, or
    StoreError where the place has a better message.
    """

    name: str
    """The kind's name, 32 hex digits."""

    def names(self) -> Iterable[str]:
        """Return the names of all files, also foreign ones; StoreError if the kind cannot be read."""
        raise NotImplementedError

    def file(self, name: str) -> StoredFile:
        """Return a file, whether or not the file exists."""
        raise NotImplementedError

    def prepare(self, record: bytes) -> None:
        """Find out that features can be written, before any are computed, and describe the kind."""
        raise NotImplementedError

    def mark_used(self, record: bytes) -> None:
        """Set the time of the last use, and describe the kind where that was lost; errors are not told."""
        raise NotImplementedError

    def write(self, features: Mapping[bytes, Array]) -> StoredFile:
        """Write features, float32 (D,) by key, as a segment, whole or not at all.

        After :meth:`prepare`, describe the kind where that was lost.
        """
        raise NotImplementedError

    @property
    def identity(self) -> StoredFile:
        """The file that describes the kind."""
        return self.file(IDENTITY)

    def segments(self) -> list[StoredFile]:
        """Return all segments by name; StoreError if the kind cannot be read."""
        return self._matching(SEGMENT_NAME)

    def leftovers(self) -> list[StoredFile]:
        """Return the temporary files of processes."""
        return self._matching(LEFTOVER)

    def files(self) -> list[StoredFile]:
        """Return all files of the kind but the one that describes it."""
        return self._matching(_OWN)

    def _matching(self, pattern: re.Pattern[str]) -> list[StoredFile]:
        return [self.file(name) for name in sorted(self.names()) if pattern.fullmatch(name)]

    def used(self) -> float:
        """Return the time of the last use, in seconds since 1970; 0 if it is unknown."""
        return self.identity.changed() or 0.0

    def find(self, wanted: Set[bytes]) -> Generator[StoredFile, None, None]:
        """Yield segments that may hold wanted keys; the caller removes found keys from ``wanted``.

        Raises:
            StoreError: the kind cannot be read.
        """
        del wanted  # each segment has its own list of keys
        yield from self.segments()

    def ahead(self, segments: Sequence[StoredFile]) -> Iterator[StoredFile]:
        """Yield segments that are to be read one after the other."""
        return iter(segments)

    def count(self, damaged: list[str]) -> int | None:
        """Return the number of features, where that is known without reading them all.

        Descriptions of what is damaged besides segments and the description of the kind are added to ``damaged``.
        """
        del damaged
        return None

    def finish(self) -> None:
        """Make what was written quick to find; nothing is lost without."""

    def compact(self, *, dry_run: bool) -> int:
        """Make all features quick to find, and return the number of files that this replaced."""
        del dry_run
        return 0

    def is_closed(self) -> bool:
        """Return whether the kind is another user's, who gave no permission to look into it."""
        return False


class Place(Protocol):
    """The place of a store: its kinds, and a folder on this machine; its text is for messages."""

    @property
    def folder(self) -> Path:
        """A folder for files beside the features: the store's own, or one on this machine alone."""

    def exists(self) -> bool:
        """Return whether there are features."""

    def kind(self, name: str) -> KindFiles:
        """Return the files of a kind, whether or not there are some."""

    def kinds(self) -> list[KindFiles]:
        """Return the kinds that are there, by name; StoreError if the store cannot be read."""
