"""Files and folders that several users share: readable and writable by a group, whatever each user's umask.

A folder is shared when it has the setgid bit: that says that what is made in it is the group's. What
is made below it here gets what its folder gives the group, as git does with
``core.sharedRepository=group``; elsewhere the user's umask decides, as always.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from sightword.files import sync_folder

INHERITED = stat.S_ISGID | stat.S_ISVTX | stat.S_IRWXG
"""What a new folder takes over from a shared one: setgid, the sticky bit, and what the group may do."""
OWN_AND_GROUP = stat.S_IRWXU | stat.S_IRWXG


def is_shared(folder: Path) -> bool:
    """Whether what is made in a folder is the group's, which its setgid bit says.

    Raises:
        OSError: the folder is not there or cannot be looked at.
    """
    return bool(folder.stat().st_mode & stat.S_ISGID)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each with the bits of the shared one it lies in; nothing where it is there.

    Raises:
        OSError: what the file system says.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    wanted = folder.parent.stat().st_mode & INHERITED if is_shared(folder.parent) else 0
    if not wanted:
        folder.mkdir(exist_ok=True)
        return
    # Never there with fewer bits: another of the group may write into it at once.
    temporary = _beside(folder)
    temporary.mkdir()
    try:
        temporary.chmod(stat.S_IMODE(temporary.stat().st_mode) | wanted)
        os.replace(temporary, folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        with contextlib.suppress(OSError):  # it has its name now
            temporary.rmdir()


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is never changed again, whole or not at all, read-only; its folder is made.

    Nothing is done where it is there with these bytes. One with other bytes, which
    somebody damaged, is replaced where that is permitted.

    Args:
        path: whose name its content decides, so that two who write it write the same.
        data: its bytes.

    Raises:
        OSError: what the file system says, such as ``PermissionError`` where a damaged one is
            another user's, in a folder with the sticky bit; nothing is left behind.
    """
    if not _holds(path, data):
        _write(path, data, 0o444)


def write_open(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; in a shared folder, the group may write and touch it.

    Raises:
        OSError: as in :func:`write_new`.
    """
    _write(path, data, 0o666)


def check_writable(folder: Path, data: bytes) -> None:
    """Write a file and take it away again, to find out before long work that it will be possible.

    Raises:
        OSError: what the file system says.
    """
    temporary = _beside(folder / "probe")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
    finally:
        temporary.unlink(missing_ok=True)


def _write(path: Path, data: bytes, mode: int) -> None:
    make_folder(path.parent)
    temporary = _beside(path)
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        bits = stat.S_IMODE(temporary.stat().st_mode)
        wanted = (bits & mode) | (mode & OWN_AND_GROUP if is_shared(path.parent) else 0)
        if wanted != bits:
            temporary.chmod(wanted)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except PermissionError:
        if not _holds(path, data):  # another user wrote the same meanwhile, where nobody replaces what is theirs
            raise
    finally:
        temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}.tmp")


def _holds(path: Path, data: bytes) -> bool:
    """Whether a file has these bytes; not where it cannot be read."""
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False
