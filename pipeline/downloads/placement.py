"""Files moved into their place: on the disk first, then in as few steps as possible."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

from sightword.io.files import sync
from sightword.io.transfer import need_room

MANY = 100
"""Number of files above which the whole disk is synchronised."""


def place(staged: Path, target: Path) -> None:
    """Move the contents of a staged folder into a target folder, which may exist, after they are on the disk."""
    files = [path for path in staged.rglob("*") if path.is_file()]
    if len(files) > MANY:
        os.sync()
    else:
        for path in files:
            sync(path)
    target.mkdir(parents=True, exist_ok=True)
    _move(staged, target)


def copy_file(file: Path, goal: Path, *, link: bool) -> None:
    """Copy a file, or give it a second name, which needs no room; ``link`` allows the latter."""
    if link:
        with contextlib.suppress(OSError):  # a file system without links
            os.link(file, goal)
            return
    need_room(goal.parent, file.stat().st_size)
    shutil.copyfile(file, goal)


def _move(staged: Path, target: Path) -> None:
    """Move the contents of a folder: a new folder in one step, into an existing one file by file."""
    for entry in sorted(staged.iterdir()):
        goal = target / entry.name
        if entry.is_dir() and goal.is_dir():
            _move(entry, goal)
            continue
        try:
            os.replace(entry, goal)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # A folder of the data set is a link to another disk.
            near = goal.with_name(f".{goal.name}.tmp")
            shutil.rmtree(near, ignore_errors=True)
            (shutil.copytree if entry.is_dir() else shutil.copyfile)(entry, near)
            os.replace(near, goal)
