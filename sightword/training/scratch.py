"""Folders of half-done work: each belongs to one process at a time, and what nobody needs any more is cleared away.

A folder ``NAME`` is its process's as long as that holds a lock on the file ``NAME.lock`` beside it; the lock goes with
the process, however it ends. Where a second process asks for the same name it gets a ``NAME.XXXXXXXX`` of its own, with
a lock likewise, which is of no use after it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

log = logging.getLogger(__name__)

DAMAGED = ".damaged"
"""Added to the name of a folder that was set aside."""
DAYS = 2.0
"""What nobody needs stays for so long, for people to look at."""

_LOCK = ".lock"


@contextlib.contextmanager
def take_folder(place: Path, name: str) -> Iterator[Path]:
    """The folder of a piece of work, for this process only; leftovers of others beside it are removed.

    Args:
        place: the folder of such folders.
        name: without a dot.

    Yields:
        The folder: as it was left where the work is half done. Where another process has it, a new one, that
        is deleted at the end. Whoever finishes the work deletes the folder.
    """
    place.mkdir(parents=True, exist_ok=True)
    clear(place)
    own = False
    folder = place / name
    lock = _take(_lock_of(folder))
    if lock is None:
        log.warning("another process trains the very same now: this one starts by itself and cannot be resumed")
        folder, own = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=place)), True
        lock = _take(_lock_of(folder))
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        if own:
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            if not folder.exists():
                _lock_of(folder).unlink(missing_ok=True)
            lock.close()


def clear(place: Path) -> None:
    """Remove what is of no use to anyone and older than ``DAYS``.

    That are locks without a folder, folders that were set aside, and those that second processes left when they were
    killed. What a process holds a lock on stays, and so does half-done work, however old it is.
    """
    for path in sorted(place.iterdir()):
        folder = path.with_suffix("") if path.suffix == _LOCK else path
        half_done = folder.is_dir() and "." not in folder.name
        if half_done or not _old(path):
            continue
        if path.suffix == DAMAGED:
            shutil.rmtree(path, ignore_errors=True)
            continue
        lock = _take(_lock_of(folder))
        if lock is None:
            continue
        with lock:
            if "." in folder.name:
                shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                _lock_of(folder).unlink(missing_ok=True)


def _take(path: Path) -> IO[str] | None:
    """The file, locked until it is closed; None where another process has locked it."""
    while True:
        file = open(path, "w")  # noqa: SIM115  # it stays open for as long as the lock is to hold
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:
            file.close()
            raise
        # Between the two lines above another process may have removed it: then this is a lock on nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _LOCK)


def _old(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime > DAYS * 86_400
    return False
