"""Check that the folders of a run can be written to and have room for it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Note, good, problem, warning
from sightword import machine
from sightword.corpus.listing import PICTURE_SUFFIXES, list_pictures
from sightword.errors import SetupError, SightwordError
from sightword.text import size

FULL = 100e6
"""Free bytes below which a disk counts as full."""
BASE = 1e9
"""Bytes of snapshots, checkpoints, tables and pages of a run of any size."""
FEATURES = 8_192
"""Bytes of the features of a picture: 2,048 numbers of ResNet."""
COMPRESSION = {"raw": 1.0, "png": 0.6, "webp": 0.5}
"""Size of a stored picture as a share of its pixels, three bytes each."""
ASPECT = 4 / 3
"""Pixels of a photograph by those of a square with its shorter side."""

_TODO = {
    "the store": "Use another folder: SIGHTWORD_STORE.",
    "the scratch folder": "Use another folder: SIGHTWORD_SCRATCH.",
    "DVC's cache": "Make room with `dvc gc --workspace`, or use another disk: `dvc cache dir`.",
}


def check_disk(context: Context) -> Iterator[Note]:
    """Check free space and the right to write, disk by disk."""
    disks: dict[int, list[str]] = {}
    places = folders(context)
    for name, folder in places.items():
        above = nearest(folder)
        if reason := _unwritable(above):
            yield problem(
                f"{name} cannot be written to: {above}: {reason}", _TODO.get(name, "Ask for the right to write there.")
            )
        else:
            disks.setdefault(above.stat().st_dev, []).append(name)
    amounts = {} if context.quick else estimate(context)
    for names in disks.values():
        yield _check_room(names, nearest(places[names[0]]), sum(amounts.get(name, 0.0) for name in names))


def _check_room(names: list[str], folder: Path, wanted: float) -> Note:
    free = shutil.disk_usage(folder).free
    found = f"{', '.join(names)} ({folder}): {size(free)} free"
    todo = next((_TODO[name] for name in reversed(names) if name in _TODO), "Make room there.")
    if free < FULL:
        return problem(found, todo)
    if not wanted:
        return good(found)
    found += f", a run with these parameters writes about {size(wanted)}"
    return warning(found, todo) if wanted > free else good(found)


def folders(context: Context) -> dict[str, Path]:
    """Return the folders that a run writes to, by name."""
    found: dict[str, Path] = {}
    if context.project is not None:
        cache = context.ask("dvc").get("cache")
        found["the project"] = context.project
        found["DVC's cache"] = Path(cache) if cache else context.project / ".dvc/cache/files/md5"
    try:
        here = machine.current()
    except SetupError:
        return found  # the check of settings reports the error
    return found | {"the store": here.store, "the scratch folder": here.scratch}


def nearest(path: Path) -> Path:
    """Return the folder, or the lowest existing folder above it."""
    return next(folder for folder in (path, *path.parents) if os.access(folder, os.F_OK))


def _unwritable(folder: Path) -> str:
    """Return why a folder cannot be written to; permission bits alone do not show a disk that is mounted read-only."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return error.strerror or str(error)
    return ""


def estimate(context: Context) -> dict[str, float]:
    """Return a rough size in bytes of what a run still writes, by folder; empty outside a project."""
    resize, features = context.section("resize"), context.section("features")
    if context.project is None or resize is None:
        return {}
    resized = 0.0 if context.has_run("resize") else 3 * resize.side**2 * ASPECT * COMPRESSION[resize.encoding]
    vectors = 0.0 if context.has_run("features") else FEATURES
    count = _count_pictures(context)
    outputs = BASE + count * (resized + vectors)
    store = count * vectors if features.source == "extract" else 0.0
    return {"the project": outputs, "DVC's cache": outputs, "the store": store, "the scratch folder": BASE}


def _count_pictures(context: Context) -> int:
    settings = context.section("corpus")
    assert context.project is not None
    try:
        if settings.format == "sample":
            from sightword.corpus.sample.world import load_world

            planned = load_world(context.project / settings.path).pictures
            return planned.train + planned.dev + planned.test
        listing = list_pictures(context.project / settings.pictures, required=False)
    except SightwordError:
        return 0  # the check of the corpus reports the error
    return sum(name.lower().endswith(PICTURE_SUFFIXES) for name in listing.files) if listing else 0
