"""What a store asks of the place of its files: the same of a folder and of object storage."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Protocol

from sightword.storage.segments import Array, Segment, StoredFile

IDENTITY = "identity.json"
"""The name of the file that describes a kind."""
KIND_NAME = re.compile(r"[0-9a-f]{32}")


class KindFiles(Protocol):
    """The files of one kind of features; its text is the place, for messages.

    Methods raise OSError, or StoreError where the place has a better message.
    """

    @property
    def name(self) -> str:
        """The kind's name, 32 hex digits."""

    @property
    def identity(self) -> StoredFile:
        """The file that describes the kind."""

    def prepare(self, record: bytes) -> None:
        """Find out that features can be written, before any are computed, and describe the kind."""

    def describe(self, record: bytes) -> None:
        """Describe the kind where that was lost since :meth:`prepare`."""

    def mark_used(self, record: bytes) -> None:
        """Set the time of the last use, and describe the kind where that was lost; errors are not told."""

    def used(self) -> float:
        """Return the time of the last use, in seconds since 1970; 0 if it is unknown."""

    def find(self, wanted: Set[bytes]) -> Generator[Segment, None, None]:
        """Yield segments until each wanted key had its chance; the caller removes keys that were found meanwhile.

        Raises:
            StoreError: the kind cannot be read.
        """

    def segments(self) -> list[Segment]:
        """Return all segments by name; StoreError if the kind cannot be read."""

    def ahead(self, segments: Sequence[Segment]) -> Iterator[Segment]:
        """Yield segments that are to be read one after the other."""

    def features(self) -> int | None:
        """Return the number of features, where that is known without reading them all."""

    def damage(self) -> list[str]:
        """Return descriptions of what is damaged besides segments and the description of the kind."""

    def write(self, features: Mapping[bytes, Array]) -> Segment:
        """Write features, float32 (D,) by key, as a segment, whole or not at all."""

    def finish(self) -> None:
        """Make what was written quick to find; nothing is lost without."""

    def compact(self, *, dry_run: bool) -> int:
        """Make all features quick to find, and return the number of files that this replaced."""

    def leftovers(self) -> list[StoredFile]:
        """Return the temporary files of processes."""

    def files(self) -> Iterable[StoredFile]:
        """Return all files of the kind but the one that describes it."""

    def is_closed(self) -> bool:
        """Return whether the kind is another user's, who gave no permission to look into it."""

    def vacate(self) -> None:
        """Remove the place of a kind whose files were removed, if it is empty."""


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
