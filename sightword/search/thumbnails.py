"""Thumbnails of the pictures, from the shards of the stage resize or from a folder of picture files."""

from __future__ import annotations

import io
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from PIL import Image

from sightword.corpus.listing import PICTURE_SUFFIXES
from sightword.errors import FileFormatError
from sightword.images.decode import RejectError, decode, read_file
from sightword.images.settings import ResizeSettings
from sightword.images.shards import Selection, list_pictures, read_arrays
from sightword.io.files import Pathish
from sightword.search.picture_files import existing_folder

SIDE = 448
"""The longest side of a thumbnail, in pixels."""
_QUALITY = 82
_KEPT = 1000
"""Thumbnails in memory, of about 20 kB each."""
_MAX_PIXELS = ResizeSettings().max_pixels


class Thumbnails(ABC):
    """Thumbnails by the id of the picture; the last thousand are kept in memory."""

    def __init__(self) -> None:
        self._turn = threading.Lock()  # one picture at a time is decoded and held
        self._kept = lru_cache(_KEPT)(self._small)
        self.digests: dict[str, str] = {}
        """The sha256 of each picture's file, as far as it is known."""

    def get(self, picture: str) -> bytes | None:
        """Return a WebP file, its longest side at most :data:`SIDE` pixels; None without a usable picture."""
        with self._turn:
            return self._kept(picture)

    def _small(self, picture: str) -> bytes | None:
        found = self._open(picture)
        if found is None:
            return None
        found.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        found.save(buffer, "WEBP", quality=_QUALITY, method=4)
        return buffer.getvalue()

    @abstractmethod
    def _open(self, picture: str) -> Image.Image | None:
        """Open the picture in its stored size."""

    @abstractmethod
    def __contains__(self, picture: str) -> bool:
        """Return whether there is a file of the picture."""

    def others(self, sha256: Mapping[str, str]) -> int:
        """Count the pictures whose file has another sha256, as far as both are known."""
        known = [(self.digests.get(picture), digest) for picture, digest in sha256.items() if digest]
        return sum(here not in (None, digest) for here, digest in known)


class ShardThumbnails(Thumbnails):
    """Thumbnails of the pictures in a folder that the stage resize wrote.

    Raises:
        FileFormatError: a shard is damaged.
    """

    def __init__(self, folder: Pathish) -> None:
        super().__init__()
        self._places = {listed.image_id: listed for listed in list_pictures(folder)}
        self.digests = {picture: listed.sha256 for picture, listed in self._places.items()}

    def _open(self, picture: str) -> Image.Image | None:
        if picture not in self._places:
            return None
        try:
            found = read_arrays(Selection(self._places[picture].group, frozenset([picture])))
        except FileFormatError:  # replaced since it was listed, by another run of the stage
            return None
        return Image.fromarray(found[0][1]) if found else None

    def __contains__(self, picture: str) -> bool:
        return picture in self._places


class FileThumbnails(Thumbnails):
    """Thumbnails of picture files in a folder, each named by its id, with or without a suffix.

    No file outside of the folder is read, whatever an id says; links in the folder are followed.
    """

    def __init__(self, folder: Pathish) -> None:
        super().__init__()
        self._folder = Path(folder)

    def _open(self, picture: str) -> Image.Image | None:
        path = self._path(picture)
        if path is None:
            return None
        try:
            return decode(read_file(path, max_pixels=_MAX_PIXELS), exif=True, max_pixels=_MAX_PIXELS)
        except RejectError:
            return None

    def _path(self, picture: str) -> Path | None:
        inside = PurePosixPath(picture)
        if inside.is_absolute() or ".." in inside.parts or not inside.name or "\0" in picture:
            return None
        places = (self._folder / f"{picture}{suffix}" for suffix in ("", *PICTURE_SUFFIXES))
        try:
            return next((path for path in places if path.is_file()), None)
        except OSError:  # a name that is too long for the file system
            return None

    def __contains__(self, picture: str) -> bool:
        return self._path(picture) is not None


def open_pictures(folder: Pathish) -> Thumbnails:
    """Open a folder of shards, or else of picture files.

    Raises:
        SearchError: the folder does not exist, or is a file.
        FileFormatError: a shard is damaged.
    """
    place = existing_folder(folder, "the shards of the stage resize, or a folder of picture files named by their ids")
    return ShardThumbnails(folder) if any(place.glob("shard-*.parquet")) else FileThumbnails(folder)
