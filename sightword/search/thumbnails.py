"""Thumbnails of the pictures, from the shards of the stage resize or from a folder of picture files."""

from __future__ import annotations

import io
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from PIL import Image

from sightword.errors import FileFormatError, SearchError
from sightword.files import Pathish
from sightword.images.decode import RejectError, decode, read_file
from sightword.images.settings import ResizeSettings
from sightword.images.shards import Selection, list_pictures, read_arrays

SIDE = 448
"""The longest side of a thumbnail, in pixels."""
_QUALITY = 82
_KEPT = 1000
"""Thumbnails in memory, of about 20 kB each."""
_SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_MAX_PIXELS = ResizeSettings().max_pixels


class Thumbnails(ABC):
    """Thumbnails by the id of the picture; the last thousand are kept in memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes | None] = OrderedDict()
        self._turn = threading.Lock()

    def get(self, picture: str) -> bytes | None:
        """Return a WebP file, its longest side at most :data:`SIDE` pixels; None where there is no usable picture."""
        with self._turn:
            if picture in self._kept:
                self._kept.move_to_end(picture)
                return self._kept[picture]
            found = self._open(picture)
            data = None if found is None else _small(found)
            self._kept[picture] = data
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return data

    @abstractmethod
    def _open(self, picture: str) -> Image.Image | None:
        """Open the picture in its stored size."""

    @abstractmethod
    def __contains__(self, picture: str) -> bool:
        """Return whether there is a file of the picture."""

    def others(self, sha256: Mapping[str, str]) -> int:
        """Count the pictures whose file has another sha256, as far as the sha256 is known."""
        del sha256
        return 0


class ShardThumbnails(Thumbnails):
    """Thumbnails of the pictures in a folder that the stage resize wrote.

    Args:
        folder: with ``shard-NN.parquet``.

    Raises:
        FileFormatError: a shard is damaged.
    """

    def __init__(self, folder: Pathish) -> None:
        super().__init__()
        self._places = {listed.image_id: listed for listed in list_pictures(folder)}

    def _open(self, picture: str) -> Image.Image | None:
        place = self._places.get(picture)
        if place is None:
            return None
        try:
            found = read_arrays(Selection(place.group, frozenset([picture])))
        except FileFormatError:  # replaced since it was listed, by another run of the stage
            return None
        return Image.fromarray(found[0][1]) if found else None

    def __contains__(self, picture: str) -> bool:
        """Return whether a shard holds the picture."""
        return picture in self._places

    def others(self, sha256: Mapping[str, str]) -> int:
        """Count the pictures that have another sha256."""
        return sum(
            bool(digest) and picture in self._places and self._places[picture].sha256 != digest
            for picture, digest in sha256.items()
        )


class FileThumbnails(Thumbnails):
    """Thumbnails of picture files in a folder, each named by its id, with or without a suffix.

    Args:
        folder: no file outside is read, whatever an id says; links in the folder are followed.
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
        for suffix in _SUFFIXES:
            path = self._folder / f"{picture}{suffix}"
            try:
                if path.is_file():
                    return path
            except OSError:  # a name that is too long for the file system
                return None
        return None

    def __contains__(self, picture: str) -> bool:
        """Return whether there is a file of the picture."""
        return self._path(picture) is not None


def open_pictures(folder: Pathish) -> Thumbnails:
    """Open a folder of shards, or else of picture files.

    Raises:
        SearchError: the folder does not exist.
        FileFormatError: a shard is damaged.
    """
    if not Path(folder).is_dir():
        raise SearchError(
            "there is no such folder",
            where=folder,
            expected="the shards of the stage resize, or a folder of picture files named by their ids",
        )
    if next(Path(folder).glob("shard-*.parquet"), None) is None:
        return FileThumbnails(folder)
    return ShardThumbnails(folder)


def _small(picture: Image.Image) -> bytes:
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=_QUALITY, method=4)
    return buffer.getvalue()
