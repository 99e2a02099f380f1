"""The picture files of a folder, and their sha256, remembered by size and time of change: a file is read once."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from sightword.cluster.processes import threaded_map
from sightword.corpus.listing import PICTURE_SUFFIXES
from sightword.errors import FileFormatError, SearchError
from sightword.images.decode import Reject
from sightword.images.resized import Source, hash_file
from sightword.images.settings import ResizeSettings
from sightword.io import group_files
from sightword.io.files import Pathish, canonical_json, read_text
from sightword.storage.store import Store

log = logging.getLogger(__name__)

Stamp = list[int]
"""Size and time of the last change, in nanoseconds."""
_THREADS = 4
"""Files that are read at a time."""


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


class FileDigests:
    """The sha256 of the picture files of a folder; a file whose size and time did not change is not read again.

    The list is in the folder of the store. A damaged list is made again, with a warning.
    """

    def __init__(self, folder: Pathish, store: Store) -> None:
        name = hashlib.sha256(os.fsencode(Path(folder).absolute())).hexdigest()[:32]
        self._place = store.place.folder / "folders" / f"{name}.json"
        self._saved = self._record = _read(self._place)

    def known(self, source: Source) -> str | None:
        """Return the sha256 of a file, in hex, without reading the file; None for a file that is new or has changed."""
        record = self._record.get(source.image_id)
        return record[1] if record and record[0] == _stamp(source) else None

    def find(self, sources: Sequence[Source], settings: ResizeSettings) -> list[str | Reject]:
        """Return the sha256 of each file, or the reason why the file cannot be read."""
        missing = [
            (source, _stamp(source)) for source in sources if self.known(source) is None
        ]  # stamps before reading
        read = functools.partial(hash_file, settings=settings)
        found = dict(
            zip(
                (one.image_id for one, _ in missing),
                threaded_map(read, [one for one, _ in missing], threads=_THREADS),
                strict=True,
            )
        )
        fresh = {one.image_id: [stamp, found[one.image_id]] for one, stamp in missing}
        good = {image_id: value for image_id, value in fresh.items() if isinstance(value[1], str)}
        self._record = {**self._record, **good} if good else self._record
        return [found.get(source.image_id) or self._record[source.image_id][1] for source in sources]

    def save(self, keep: Collection[str]) -> None:
        """Write the list of the pictures with these ids, if the list changed."""
        record = {image_id: value for image_id, value in self._record.items() if image_id in keep}
        if record == self._saved:
            return
        try:
            text = canonical_json(record)
            group_files.write_open(self._place, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode())
            self._saved = record
        except OSError as error:
            log.debug("%s: %s", self._place, error)


def _stamp(source: Source) -> Stamp | None:
    try:
        status = Path(source.path or "").stat()
    except OSError:  # reading the file gives the reason
        return None
    return [status.st_size, status.st_mtime_ns]


def _read(place: Path) -> dict[str, Any]:
    """Return stamp and sha256 of each file of the last call; nothing without the list as it was saved."""
    if not place.is_file():
        return {}
    with contextlib.suppress(FileFormatError, ValueError):
        sha256, _, text = read_text(place).partition("\n")
        if hashlib.sha256(text.encode()).hexdigest() == sha256:
            return dict(json.loads(text))
    log.warning("%s: is not the list of files that was saved; the files are read again", place)
    return {}
