"""The picture files of a folder, and their sha256, remembered by size and time of change: a file is read once."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightword.cluster.processes import ordered_map
from sightword.errors import FileFormatError, SearchError
from sightword.images.decode import Reject
from sightword.images.resized import Source, hash_file
from sightword.images.settings import ResizeSettings
from sightword.io import group_files
from sightword.io.files import Pathish, canonical_json, read_json
from sightword.search.thumbnails import SUFFIXES
from sightword.storage.store import Store

log = logging.getLogger(__name__)

Stamp = list[int]
"""Size and time of the last change, in nanoseconds."""


def list_pictures(folder: Pathish) -> list[Source]:
    """Return the picture files of a folder and the folders in it, sorted; ids are their paths below the folder.

    Files whose names begin with a dot, and files in such folders, are left out.

    Raises:
        SearchError: the folder does not exist, or holds no picture file.
    """
    place, found = Path(folder), []
    if not place.is_dir():
        raise SearchError("there is no such folder", where=place, expected="a folder of picture files")
    for above, folders, names in os.walk(place, onerror=_report):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.startswith(".") or not name.lower().endswith(SUFFIXES):
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
        expected = f"files that end in {', '.join(SUFFIXES)}"
        raise SearchError("holds no picture files", where=place, expected=expected)
    return sorted(found, key=lambda source: source.image_id)


def _report(error: OSError) -> None:
    log.warning("folder %s left out: %s", error.filename, error.strerror)


def digests(
    folder: Pathish, sources: Sequence[Source], settings: ResizeSettings, store: Store, *, workers: int = 0
) -> list[str | Reject]:
    """Return the sha256 of each file, in hex, or the reason why it cannot be used.

    Files with the size and time of the last call are not read again. The list of the last call is in the store's
    folder; a damaged list is made again, with a warning.
    """
    place = (
        store.place.folder / "folders" / f"{hashlib.sha256(os.fsencode(Path(folder).absolute())).hexdigest()[:32]}.json"
    )
    known = _read(place)
    stamps = {source.image_id: _stamp(source) for source in sources}
    found: dict[str, str | Reject] = {
        image_id: known[image_id][1]
        for image_id, stamp in stamps.items()
        if stamp is not None and image_id in known and known[image_id][0] == stamp
    }
    missing = [source for source in sources if source.image_id not in found]
    hashes = ordered_map(functools.partial(hash_file, settings=settings), missing, workers=workers, chunk=16)
    found.update(zip((source.image_id for source in missing), hashes, strict=True))
    record = {image_id: [stamps[image_id], value] for image_id, value in found.items() if isinstance(value, str)}
    if missing or record.keys() != known.keys():
        try:
            group_files.write_open(place, canonical_json(record).encode())
        except OSError as error:
            log.debug("%s: %s", place, error)
    return [found[source.image_id] for source in sources]


def _stamp(source: Source) -> Stamp | None:
    try:
        status = Path(source.path or "").stat()
    except OSError:  # reading the file gives the reason
        return None
    return [status.st_size, status.st_mtime_ns]


def _read(place: Path) -> dict[str, Any]:
    """Return stamp and sha256 of each file of the last call; nothing without a sound list."""
    if not place.is_file():
        return {}
    try:
        record = read_json(place)
    except FileFormatError as error:
        log.warning("%s: %s; the files are read again", place, error.what)
        return {}
    if isinstance(record, dict) and all(_sound(value) for value in record.values()):
        return record
    log.warning("%s: is not a list of files; the files are read again", place)
    return {}


def _sound(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], list)
        and isinstance(value[1], str)
        and len(value[1]) == 64
    )
