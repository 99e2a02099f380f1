"""Files and folders that several users share: readable and writable by a group, with any umask.

A folder is shared if it has the setgid bit. New files and folders in a shared folder get the folder's permissions for
the group, as with git's ``core.sharedRepository=group``; elsewhere the user's umask decides.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from sightword.io.files import replacing, temporary_name

INHERITED = stat.S_ISGID | stat.S_ISVTX | stat.S_IRWXG
"""Bits that a new folder takes from a shared one: setgid, the sticky bit, and the group's permissions."""
OWN_AND_GROUP = stat.S_IRWXU | stat.S_IRWXG


def is_shared(folder: Path) -> bool:
    """Return whether a folder has the setgid bit; OSError if it is missing or cannot be examined."""
    return bool(folder.stat().st_mode & stat.S_ISGID)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, each with the bits of the shared folder above; OSError of the file system."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    if not is_shared(folder.parent):
        folder.mkdir(exist_ok=True)
        return
    # The folder appears with all bits: another user of the group may write into it at once.
    temporary = temporary_name(folder)
    temporary.mkdir()
    try:
        temporary.chmod(stat.S_IMODE(temporary.stat().st_mode) | (folder.parent.stat().st_mode & INHERITED))
        os.replace(temporary, folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        with contextlib.suppress(OSError):  # it was renamed
            temporary.rmdir()


def write_new(path: Path, data: bytes) -> None:
    """Write a read-only file, whole or not at all, whose path depends on the content; its folder is made.

    A file with other bytes is damaged, and is replaced if that is permitted; OSError of the file system.
    """
    if not _holds(path, data):
        _write(path, data, 0o444)


def write_open(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all; in a shared folder the group may write it. OSError as in :func:`write_new`."""
    _write(path, data, 0o666)


def check_writable(folder: Path, data: bytes) -> None:
    """Write and remove a file, to find an error before long work; OSError of the file system."""
    temporary = temporary_name(folder / "probe")
    try:
        temporary.write_bytes(data)
    finally:
        temporary.unlink(missing_ok=True)


def _write(path: Path, data: bytes, mode: int, tries: int = 50) -> None:
    make_folder(path.parent)
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(data)
            bits = OWN_AND_GROUP if is_shared(path.parent) else 0
            temporary.chmod((stat.S_IMODE(temporary.stat().st_mode) | bits) & mode)
    except FileNotFoundError:  # another writer's new folder replaced an empty one
        if not tries:
            raise
        _write(path, data, mode, tries - 1)
    except PermissionError:
        if not _holds(path, data):  # another user may have written the same bytes meanwhile
            raise


def _holds(path: Path, data: bytes) -> bool:
    """Return whether a file can be read and has these bytes."""
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False
