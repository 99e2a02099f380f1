"""Folders that one process of the tests makes, and all of them read."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder, made by the first process that asks; ``SIGHTWORD_TEST_MADE`` has those of several runs.

    Args:
        factory: of pytest.
        name: of the folder.
        make: fills the folder, which does not exist before.
    """
    own = factory.getbasetemp()
    run = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    top = Path(os.environ.get("SIGHTWORD_TEST_MADE") or run) / name
    top.mkdir(exist_ok=True)
    with (top / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (top / "made").exists():
            shutil.rmtree(top / "folder", ignore_errors=True)  # what a process left that did not end
            make(top / "folder")
            (top / "made").touch()
    return top / "folder"
