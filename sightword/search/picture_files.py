"""The picture files of a folder, and their hashes, remembered by size and time of change: a file is read once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from sightword.corpus.listing import PICTURE_SUFFIXES
from sightword.errors import FileFormatError, SearchError
from sightword.images.resized import Source, decoder
from sightword.images.settings import ResizeSettings
from sightword.io import group_files
from sightword.io.files import Pathish, canonical_json, read_text
from sightword.storage.store import Store

log = logging.getLogger(__name__)

Stamp = list[int]
"""Size and time of the last change, in nanoseconds."""


def existing_folder(folder: Pathish, expected: str) -> Path:
    """Return the path of a folder; SearchError with what is ``expected`` there if it does not exist or is a file."""
    if not Path(folder).is_dir():
        what = "is not a folder" if Path(folder).exists() else "there is no such folder"
        raise SearchError(what, where=folder, expected=expected)
    return Path(folder)


def list_pictures(folder: Pathish) -> list[Source]:
    """Return the picture files of a folder and the folders in it, sorted; ids are their paths below the folder.

    Files whose names begin with a dot, and files in such folders, are left out.

    Raises:
        SearchError: the folder does not exist or is a file, or holds no picture file.
    """
    place, found = existing_folder(folder, "a folder of picture files"), []
    for above, folders, names in os.walk(place, onerror=_report):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.startswith(".") or not name.lower().endswith(PICTURE_SUFFIXES):
                continue
            path = Path(above) / name
            image_id = path.relative_to(place).as_posix()
            try:
                image_id.encode()
            except UnicodeEncodeError:
                log.warning("picture %s left out: its name is not UTF-8", ascii(image_id))
                continue
            found.append(Source(image_id, str(path)))
    if not found:
        expected = f"files that end in {', '.join(PICTURE_SUFFIXES)}"
        raise SearchError("holds no picture files", where=place, expected=expected)
    return sorted(found, key=lambda source: source.image_id)


def _report(error: OSError) -> None:
    log.warning("folder %s left out: %s", error.filename, error.strerror)


class Digests(NamedTuple):
    """The hashes of a picture, in hex; empty for a file that could not be used."""

    sha256: str
    """Of the file."""
    pixels_sha256: str
    """Of the resized pixels."""


class FileDigests:
    """The hashes of the picture files of a folder; a file whose size and time did not change is not read again.

    The list is in the folder of the store, one for each way to resize. It is of one version of the code and libraries
    that decode, since another may give other pixels. A damaged list is made again, with a warning.
    """

    def __init__(self, folder: Pathish, store: Store, resizing: ResizeSettings) -> None:
        made = [os.fsdecode(Path(folder).absolute()), resizing.model_dump()]
        name = hashlib.sha256(os.fsencode(canonical_json(made))).hexdigest()[:32]
        self._place = store.place.folder / "folders" / f"{name}.json"
        self._saved = _read(self._place)
        self._record = {**self._saved}

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
        record = {image_id: value for image_id, value in self._record.items() if image_id in keep}
        if record == self._saved:
            return
        try:
            text = canonical_json([decoder(), record])
            group_files.write_open(self._place, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode())
            self._saved = record
        except OSError as error:
            log.debug("%s: %s", self._place, error)


def stamp(source: Source) -> Stamp | None:
    """Return size and time of a file; None where it cannot be read."""
    try:
        status = Path(source.path or "").stat()
    except OSError:  # reading the file gives the reason
        return None
    return [status.st_size, status.st_mtime_ns]


def _read(place: Path) -> dict[str, Any]:
    """Return stamp and hashes of each file of the last call; nothing without the list as it was saved."""
    if not place.is_file():
        return {}
    with contextlib.suppress(FileFormatError, ValueError):
        sha256, _, text = read_text(place).partition("\n")
        if hashlib.sha256(text.encode()).hexdigest() == sha256:
            version, record = json.loads(text)
            return dict(record) if version == decoder() else {}
    log.warning("%s: is not the list of files that was saved; the files are read again", place)
    return {}
