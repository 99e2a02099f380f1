"""The hash of the code that a training run executes: after a change, a half-done run starts afresh."""

from __future__ import annotations

import hashlib
from pathlib import Path

import sightword

_PLACE = Path(sightword.__path__[0])
_CODE = (
    *("captions/__init__.py", "captions/normalise.py", "captions/table.py", "captions/units.py"),
    *("captions/vocabulary.py", "compute/__init__.py", "compute/devices.py", "compute/threads.py"),
    *("features/__init__.py", "features/pairs.py", "features/table.py", "io/__init__.py", "io/files.py"),
    *("io/hdf5.py", "io/mapping.py", "machine.py", "model", "settings.py", "training", "vse/__init__.py"),
    "vse/training",
)
"""The rooms and files that training runs; a test follows the imports."""


def code_hash() -> str:
    """Return the sha256, as hex digits, of the names and contents of :func:`code_files`."""
    digest = hashlib.sha256()
    for path in code_files():
        data = path.read_bytes()
        digest.update(f"{path.relative_to(_PLACE).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def code_files() -> list[Path]:
    """Return the library's files that training runs, sorted."""
    places = [_PLACE / name for name in _CODE]
    return sorted(file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place]))
