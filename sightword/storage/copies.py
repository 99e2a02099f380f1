"""Copies of immutable files from object storage, in a folder on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from sightword.io import group_files

log = logging.getLogger(__name__)


class Copies:
    """A folder of copies, which may be deleted at any time; a folder that cannot be written keeps none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str, name_of: Callable[[bytes], str], download: Callable[[], bytes]) -> bytes:
        """Return the bytes of the file whose name is that of its bytes, from its copy or else downloaded.

        A damaged copy is replaced. Bytes that have another name after a second download are returned as they are and
        not kept. Errors of ``download`` are raised.
        """
        path = self._folder / name
        try:
            data = path.read_bytes()
            if name_of(data) == name:
                return data
            log.warning("%s: the copy is damaged and is downloaded again", path)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.debug("%s: %s", path, error)
        data = download()
        if name_of(data) != name:
            data = download()
        if name_of(data) == name:
            try:
                group_files.write_new(path, data)
            except OSError as error:  # a full disk, or a folder of another user
                log.debug("%s: %s", path, error)
        return data
