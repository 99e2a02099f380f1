"""Folders of half-done work: each belongs to one process at a time, and useless leftovers are removed.

A folder ``NAME`` belongs to the process that holds a lock on the file ``NAME.lock`` beside it; the operating system
releases the lock when the process ends. A second process with the same name gets a folder ``NAME.XXXXXXXX``, with a
lock of its own, which is deleted at the end.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

log = logging.getLogger(__name__)

DAMAGED = ".damaged"
"""Ending of a folder that was set aside."""
DAYS = 2.0
"""Age in days at which useless leftovers are removed."""

_LOCK = ".lock"
_WAIT = 0.5
"""Seconds to wait for a lock that another process is just removing."""


@contextlib.contextmanager
def take_folder(place: Path, name: str) -> Iterator[Path]:
    """Hold the folder ``place/name`` for this process only, and remove leftovers beside it; the name has no dot.

    Yields:
        The folder, with the half-done work if there is some; or, if another process has the folder, a new one that is
        deleted at the end. Whoever finishes the work deletes the folder.
    """
    place.mkdir(parents=True, exist_ok=True)
    clear(place)
    folder = place / name
    lock = _take(folder, seconds=_WAIT)
    if lock is None:
        log.warning("another process trains with the same inputs now: this run starts anew and cannot be resumed")
        folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=place))
        lock = _take(folder, seconds=_WAIT)
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        if folder.name != name:
            shutil.rmtree(folder, ignore_errors=True)
        _release(lock, folder)


def clear(place: Path) -> None:
    """Remove leftovers older than :data:`DAYS`: damaged folders, locks without a folder, folders of second processes.

    A folder whose lock is held stays, and so does half-done work of any age.
    """
    for path in sorted(place.iterdir()):
        folder = path.with_suffix("") if path.suffix == _LOCK else path
        half_done = folder.is_dir() and "." not in folder.name
        if half_done or not _is_old(path):
            continue
        if path.suffix == DAMAGED:
            shutil.rmtree(path, ignore_errors=True)
        elif lock := _take(folder, seconds=0):
            if "." in folder.name:  # of a second process
                shutil.rmtree(folder, ignore_errors=True)
            _release(lock, folder)


def _take(folder: Path, *, seconds: float) -> FileLock | None:
    """Return the held lock of a folder; None if another process holds it."""
    lock = FileLock(folder.with_name(folder.name + _LOCK), timeout=seconds, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def _release(lock: FileLock | None, folder: Path) -> None:
    """Release a folder's lock; without the folder, remove the lock's file too, while the lock is held."""
    if lock is not None:
        if not folder.exists():
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _is_old(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime > DAYS * 86_400
    return False
