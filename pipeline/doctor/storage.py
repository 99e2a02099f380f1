"""DVC's cache, the folders a run writes to, and locks that were left behind."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.doctor.context import Situation
from pipeline.doctor.findings import Note, good, problem, warning
from sightword import machine
from sightword.errors import SetupError

FEW_FILES = 10_000
"""Files that a disk should still have room for: DVC makes one for each file of an output and of raw data."""


def nearest(path: Path) -> Path:
    """The folder itself, or the lowest above it that is there: where it would be made."""
    return next(folder for folder in (path, *path.parents) if _is_there(folder))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False  # in a folder that cannot be looked into


def folders(situation: Situation) -> dict[str, Path]:
    """The places a run writes to, by what they are called here."""
    found: dict[str, Path] = {}
    if situation.project is not None:
        found["the project"] = situation.project
        cache = situation.facts("dvc").get("cache")
        found["DVC's cache"] = Path(cache) if cache else situation.project / ".dvc/cache/files/md5"
        if site := situation.facts("dvc").get("site_cache"):
            found["DVC's notes"] = Path(site)
    try:
        here = machine.current()
    except SetupError:
        return found  # told where the settings are looked at
    return found | {"the store": here.store, "the scratch folder": here.scratch}


def look_at_folders(situation: Situation) -> Iterator[Note]:
    """Whether each can be written to, and has room for more files."""
    hints = {
        "the store": "Give permission there, or name another folder: SIGHTWORD_STORE.",
        "the scratch folder": "Give permission there, or name another folder: SIGHTWORD_SCRATCH.",
        "DVC's notes": "Name another folder: DVC_SITE_CACHE_DIR, or `dvc config --local core.site_cache_dir FOLDER`.",
    }
    writable = True
    for name, folder in folders(situation).items():
        above = nearest(folder)
        reason = _unwritable(above)
        if reason:
            writable = False
            yield problem(f"{name} cannot be written to: {above}: {reason}", hints.get(name, "Give permission there."))
            continue
        free = os.statvfs(above)
        if free.f_files and free.f_favail < FEW_FILES:
            yield warning(
                f"the disk of {name} has room for {free.f_favail} more files only ({above})",
                "Remove files: `dvc gc --workspace` removes what no longer belongs to anything from the cache.",
            )
    if writable:
        yield good("all folders that a run writes to can be written to")


def _unwritable(folder: Path) -> str:
    """Why nothing can be written; permission bits alone do not tell, as of a disk that is mounted read-only."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return error.strerror or str(error)
    return ""


def look_at_cache(situation: Situation) -> Iterator[Note]:
    """How outputs come from the cache into the workspace, and whether others may use it too."""
    facts = situation.facts("dvc")
    if "error" in facts:
        todo = "Mend .dvc/config, or begin with `dvc init`."
        if "Errno" in facts["error"]:
            todo = (
                "Give permission there; where it is no folder of the project: set DVC_SITE_CACHE_DIR to one of yours."
            )
        yield problem(f"DVC cannot work here: {facts['error']}", todo)
        return
    if "cache" not in facts:
        if facts:
            yield problem(f"DVC cannot be asked ({facts.get('failed', 'it takes too long')})", "Try `dvc version`.")
        return
    cache = Path(facts["cache"])
    if not cache.is_dir():
        yield good(f"the cache is empty yet: {cache}")
    yield from _links(facts, cache)
    yield from _sharing(situation, facts, cache)


def _links(facts: dict[str, Any], cache: Path) -> Iterator[Note]:
    wanted, possible = facts["cache_types"] or ["reflink", "copy"], facts["links"]
    if possible is None:
        return  # it is not there yet, or cannot be written to, which is told elsewhere
    able = [kind for kind in wanted if kind == "copy" or kind in possible]
    if not able:
        yield problem(
            f"cache.type is {', '.join(wanted)}, but between {cache} and the project only "
            f"{', '.join([*possible, 'copy'])} is possible",
            "`dvc config --local cache.type reflink,copy`, or put the cache onto the project's disk.",
        )
    elif able[0] == "copy" and "reflink" not in possible:
        other = [kind for kind in ("hardlink", "symlink") if kind in possible]
        yield good(
            "outputs are copied from the cache, so they take their place twice"
            + (
                f"; `dvc config --local cache.type {','.join(other)}` would save it, with read-only outputs"
                if other
                else ""
            )
        )
    else:
        yield good(f"outputs are made from the cache by {able[0]}")


def _sharing(situation: Situation, facts: dict[str, Any], cache: Path) -> Iterator[Note]:
    if not cache.is_dir():
        return
    mode, inside = cache.stat().st_mode, situation.project is not None and cache.is_relative_to(situation.project)
    if facts["shared"]:
        missing = [name for name, bit in (("write", stat.S_IWGRP), ("setgid", stat.S_ISGID)) if not mode & bit]
        if missing:
            yield warning(
                f"cache.shared is group, but {cache} lacks the group's {' and '.join(missing)} bit",
                f"Once, by its owner: `chmod -R g+w {cache}` and `find {cache} -type d -exec chmod g+s {{}} +`.",
            )
    elif not inside and not _private(cache):
        yield warning(
            f"the cache {cache} lies outside the project, and others cannot use what is put there",
            "If a lab shares it: `dvc config cache.shared group`.",
        )
    group = cache.stat().st_gid
    if facts["shared"] and os.geteuid() != 0 and group not in {os.getegid(), *os.getgroups()}:
        yield problem(f"you are not in the group that {cache} belongs to", "Ask for it, then log in anew.")


def _private(folder: Path) -> bool:
    """Whether it lies in the user's own home."""
    try:
        return folder.is_relative_to(Path.home())
    except RuntimeError:
        return False


def look_at_locks(situation: Situation) -> Iterator[Note]:
    """What a killed DVC command left behind, and whether another one is at work."""
    assert situation.project is not None
    facts = situation.facts("dvc")
    temporary = Path(facts.get("temporary") or situation.project / ".dvc/tmp")
    found = [*_rwlock(temporary / "rwlock"), *_lock(temporary / "lock", linked=facts.get("hardlink_lock", False))]
    yield from found or [good("no lock of DVC's is held or left behind")]


def _lock(path: Path, *, linked: bool) -> Iterator[Note]:
    if not path.exists():
        return
    if linked:
        # With core.hardlink_lock the file itself is the lock, and stays when its process is killed.
        age = time.time() - path.lstat().st_ctime
        yield warning(
            f"{path} has been there for {age / 60:.0f} minutes: a DVC command runs, or one was killed",
            f"If none runs on any machine: `rm {path}`.",
        )
        return
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        who = path.read_text(encoding="utf-8", errors="replace").strip() or "unknown"
        yield warning(f"a DVC command is at work here (process {who})", "Wait for it, or end it.")


def _rwlock(path: Path) -> Iterator[Note]:
    """The list of paths that stages at work read or write."""
    todo = f"If no DVC command runs here: `rm {path}`."
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        writers, readers = held.get("write", {}), held.get("read", {})
        entries = {
            (int(one["pid"]), str(one["cmd"]))
            for one in [*writers.values(), *(r for rs in readers.values() for r in rs)]
        }
    except FileNotFoundError:
        return
    except (ValueError, TypeError, KeyError, AttributeError):
        yield problem(f"{path} was cut off, as by a full disk: each DVC command will stop at it", todo)
        return
    for pid, command in sorted(entries):
        if not _lives(pid):
            yield warning(
                f"process {pid} ({command}) is dead, but {path} still lists it", f"DVC takes it out itself. {todo}"
            )
        elif not _is_dvc(pid):
            yield problem(f"{path} lists process {pid} ({command}), whose number another program has now", todo)
        else:
            yield warning(f"process {pid} ({command}) is at work on some stages", "Wait for it, or end it.")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True


def _is_dvc(pid: int) -> bool:
    """Whether a process may be DVC's; yes where that cannot be known."""
    try:
        return b"dvc" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True
