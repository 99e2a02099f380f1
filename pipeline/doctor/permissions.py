"""Files of a shared folder, such as a remote, that other users cannot read."""

from __future__ import annotations

import stat
from pathlib import Path

_MASKS = {"g": stat.S_IRWXG, "o": stat.S_IRWXO}


def readers(folder: Path) -> str:
    """Return who may read a folder beside its owner, in the letters of `chmod`: g for the group, o for all others.

    A folder in which the group may write and all others may not is the group's.
    """
    mode = folder.stat().st_mode
    group = "g" * bool(mode & stat.S_IRGRP)
    of_group = mode & stat.S_IWGRP and not mode & stat.S_IWOTH
    return group + "o" * bool(mode & stat.S_IROTH and not of_group)


def closed(folder: Path, path: Path) -> Path | None:
    """Return the first file or folder on the way from a folder to a path below it that not all its readers may read."""
    wanted = sum(_MASKS[letter] for letter in readers(folder))
    below = path.relative_to(folder)
    for here in (folder / one for one in (*reversed(below.parents), below)):
        try:
            mode = here.stat().st_mode
        except FileNotFoundError:
            return None
        needed = wanted & (0o055 if stat.S_ISDIR(mode) else 0o044)
        if mode & needed != needed:
            return here
    return None


def owner(path: Path) -> str:
    """Return the name of a file's owner; the number, where this machine has no such user."""
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)
