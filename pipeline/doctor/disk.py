"""Check that the folders of a run can be written to and have room for it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Finding, good, problem, warning
from sightword import machine
from sightword.errors import SetupError
from sightword.io.files import FULL
from sightword.messages import size

LITTLE, USUAL = 100e6, 5e9
"""Free bytes below which a disk counts as full, and below which a run on some thousand pictures may fill it."""

_OTHERWISE = {
    "the project": "work in a clone elsewhere",
    "DVC's cache": "use another folder: `dvc cache dir`",
    "the store": "use another folder: SIGHTWORD_STORE",
    "copies of the store": "use another folder: SIGHTWORD_CACHE",
    "the scratch folder": "use another folder: SIGHTWORD_SCRATCH",
}


def check_disk(context: Context) -> Iterator[Finding]:
    """Check free space and the right to write, disk by disk."""
    disks: dict[int, dict[str, Path]] = {}
    for name, folder in _folders(context).items():
        there = next(one for one in (folder, *folder.parents) if os.access(one, os.F_OK))
        try:  # permission bits do not show a disk that is mounted read-only
            with tempfile.TemporaryFile(dir=there) as file:
                file.write(b"x")
        except OSError as error:
            what = f"{name} cannot be written to: {there}: {error.strerror or error}"
            refused = f"Ask for the right to write there, or {_OTHERWISE[name]}."
            yield problem(what, _room(name, context) if error.errno in FULL else refused)
        else:
            disks.setdefault(there.stat().st_dev, {})[name] = there
    for places in disks.values():
        folder = next(iter(places.values()))
        free = shutil.disk_usage(folder).free
        what, report = f"{', '.join(places)} ({folder}): {size(free)} free", problem if free < LITTLE else warning
        yield report(what, _room(list(places)[-1], context)) if free < USUAL else good(what)


def _room(name: str, context: Context) -> str:
    """Return the advice for a folder whose disk is full."""
    if name != "DVC's cache":
        return f"Make room there, or {_OTHERWISE[name]}."
    cache = context.ask("dvc").get("cache")
    # The cache, or a link to it, may be outside of the project, and one clone does not know what others keep there.
    if cache and not Path(cache).resolve().is_relative_to(context.root.resolve()):
        return f"Other clones may use the cache: make room as docs/lab.md says, or {_OTHERWISE[name]}."
    means = "`dvc gc --all-commits` (experiments keep their numbers, and with `--all-experiments` their outputs)"
    return f"Make room: {means}, or {_OTHERWISE[name]}."


def _folders(context: Context) -> dict[str, Path]:
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
    store = {"copies of the store": here.cache} if machine.is_address(here.store) else {"the store": here.local_store}
    return found | store | {"the scratch folder": here.scratch}
