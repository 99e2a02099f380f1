"""The picture files of a folder, their hashes, remembered by size and time of change, and thumbnails for the page."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import threading
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from PIL import Image

from sightword.corpus.listing import PICTURE_SUFFIXES, walk
from sightword.errors import FileFormatError, SearchError
from sightword.images import shards
from sightword.images.decode import RejectError, decode, read_file
from sightword.images.resized import Source, decoder
from sightword.images.settings import ResizeSettings
from sightword.io import group_files
from sightword.io.files import Pathish, canonical_json, loads
from sightword.storage.store import Store

log = logging.getLogger(__name__)

Stamp = list[int]
"""Size and time of the last change, in nanoseconds."""
_ENDINGS = (*PICTURE_SUFFIXES, ".avif", ".heic", ".heif", ".jp2", ".jxl")
"""Endings of pictures in a user's folder; those that cannot be decoded are told."""
SIDE = 448
"""The longest side of a thumbnail, in pixels."""
_QUALITY = 82
_KEPT = 1000
"""Thumbnails in memory, of about 20 kB each."""
_MAX_PIXELS = ResizeSettings().max_pixels


def existing_folder(folder: Pathish, expected: str) -> Path:
    """Return the path of a folder; SearchError with what is ``expected`` there if it does not exist or is a file."""
    if not Path(folder).is_dir():
        what = "is not a folder" if Path(folder).exists() else "there is no such folder"
        raise SearchError(what, where=folder, expected=expected)
    return Path(folder)


def list_pictures(folder: Pathish) -> list[Source]:
    """Return the picture files of a folder and the folders in it, also linked ones, sorted; ids are paths below it.

    Files whose names begin with a dot, and files in such folders, are left out.

    Raises:
        SearchError: the folder does not exist or is a file, or holds no picture file.
    """
    place, found = existing_folder(folder, "a folder of picture files"), []

    def shown(path: str) -> bool:
        return not path.rpartition("/")[2].startswith(".")

    for image_id, _ in walk(place, shown):
        if not shown(image_id) or not image_id.lower().endswith(_ENDINGS):
            continue
        try:
            image_id.encode()
        except UnicodeEncodeError:
            log.warning("picture %s left out: its name is not UTF-8", ascii(image_id))
            continue
        found.append(Source(image_id, str(place / image_id)))
    if not found:
        expected = f"files that end in {', '.join(_ENDINGS)}"
        raise SearchError("holds no picture files", where=place, expected=expected)
    return sorted(found, key=lambda source: source.image_id)


class Digests(NamedTuple):
    """The hashes of a picture, in hex; empty for a file that could not be used."""

    sha256: str
    """Of the file."""
    pixels_sha256: str
    """Of the resized pixels."""


class FileDigests:
    """The hashes of the picture files of a folder; a file whose size and time did not change is not read again.

    The list is in the folder of the store, one for each way to resize. It is of one version of the code and libraries
    that decode, since another may give other pixels.
    """

    def __init__(self, folder: Pathish, store: Store, resizing: ResizeSettings) -> None:
        made = [os.fsdecode(Path(folder).absolute()), resizing.model_dump()]
        name = hashlib.sha256(os.fsencode(canonical_json(made))).hexdigest()[:32]
        self._place = store.place.folder / "folders" / f"{name}.json"
        self._record = self._read()

    def _read(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, TypeError):  # a damaged list is made again
            sha256, _, text = self._place.read_text(encoding="utf-8").partition("\n")
            version, record = loads(text) if hashlib.sha256(text.encode()).hexdigest() == sha256 else ("", {})
            return dict(record) if version == decoder() else {}
        return {}

    def known(self, source: Source) -> Digests | None:
        """Return the hashes of a file without reading the file; None for a file that is new or has changed."""
        record = self._record.get(source.image_id)
        return Digests(*record[1:]) if record and record[0] == stamp(source) else None

    def add(self, source: Source, stamped: Stamp | None, digests: Digests) -> None:
        """Remember the hashes of a file by the stamp that the file had before it was read."""
        if stamped:
            self._record[source.image_id] = [stamped, *digests]

    def save(self, keep: Collection[str]) -> None:
        """Write the list of the pictures with these ids, if the list changed."""
        there = self._read()  # with what a reader for another network wrote meanwhile
        record = {image_id: value for image_id, value in (there | self._record).items() if image_id in keep}
        if record == there:
            return
        try:
            text = canonical_json([decoder(), record])
            group_files.write_open(self._place, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode())
        except OSError as error:
            log.debug("%s: %s", self._place, error)


def stamp(source: Source) -> Stamp | None:
    """Return size and time of a file; None where it cannot be read."""
    try:
        status = Path(source.path or "").stat()
    except OSError:  # reading the file gives the reason
        return None
    return [status.st_size, status.st_mtime_ns]


class Thumbnails:
    """Thumbnails by the id of a picture, from shards of the stage resize or from picture files named by their ids.

    No file outside of the folder is read, whatever an id says; links in the folder are followed.

    Raises:
        SearchError: the folder does not exist, or is a file.
        FileFormatError: a shard is damaged.
    """

    def __init__(self, folder: Pathish) -> None:
        expected = "the shards of the stage resize, or a folder of picture files named by their ids"
        self._folder = existing_folder(folder, expected)
        self._groups: dict[str, shards.Group] | None = None
        if any(self._folder.glob("shard-*.parquet")):
            self._groups = {listed.image_id: listed.group for listed in shards.list_pictures(folder)}
        self._turn = threading.Lock()  # one picture at a time is decoded and held
        self._kept = lru_cache(_KEPT)(self._small)

    def get(self, picture: str) -> bytes | None:
        """Return a WebP file, its longest side at most :data:`SIDE` pixels; None without a usable picture."""
        with self._turn:
            return self._kept(picture)

    def _small(self, picture: str) -> bytes | None:
        try:
            found = self._open(picture) if picture in self else None
        except (RejectError, FileFormatError):  # a shard may have been replaced by another run of the stage
            return None
        if found is None:
            return None
        found.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        found.save(buffer, "WEBP", quality=_QUALITY, method=4)
        return buffer.getvalue()

    def _open(self, picture: str) -> Image.Image | None:
        """Open a picture in its stored size."""
        if self._groups is None:
            path = self._path(picture) or self._folder / picture
            return decode(read_file(path, max_pixels=_MAX_PIXELS), exif=True, max_pixels=_MAX_PIXELS)
        found = shards.read_arrays(shards.Selection(self._groups[picture], frozenset([picture])))
        return Image.fromarray(found[0][1]) if found else None

    def __contains__(self, picture: str) -> bool:
        """Return whether there is a file of the picture."""
        return picture in self._groups if self._groups is not None else self._path(picture) is not None

    def _path(self, picture: str) -> Path | None:
        """Return the file that a picture's id names, with or without an ending; None without such a file."""
        inside = PurePosixPath(picture)
        if inside.is_absolute() or ".." in inside.parts or not inside.name or "\0" in picture:
            return None
        places = (self._folder / f"{picture}{suffix}" for suffix in ("", *PICTURE_SUFFIXES))
        try:
            return next((path for path in places if path.is_file()), None)
        except OSError:  # a name that is too long for the file system
            return None
