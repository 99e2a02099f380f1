"""Whether a result made now could be traced: the project's files and what git has of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.context import Situation
from pipeline.doctor.findings import Note, good, problem, warning
from pipeline.doctor.formats import some
from pipeline.lineage import documents
from pipeline.lineage.cache import Cache
from pipeline.lineage.lock import LOCK, Lock, read_lock
from pipeline.params import params_file
from sightword.errors import SightwordError
from sightword.files import read_text

TRACED = (
    "params.yaml",
    "dvc.yaml",
    LOCK,
    "pipeline",
    "stages",
    "pyproject.toml",
    "constraints.txt",
    ".dvc/config",
    "data/raw",
)
"""What makes a result: changes to other files do not matter here."""


def look_at_files(situation: Situation) -> Iterator[Note]:
    """``params.yaml``, ``dvc.yaml`` and ``dvc.lock`` can be read."""
    assert situation.project is not None
    try:
        params_file.load(situation.project / "params.yaml")
    except SightwordError as error:
        yield problem(str(error).partition("\nMend the file")[0].rstrip(". "), "Mend it, or `sightword recipe NAME`.")
    else:
        yield good("params.yaml: all sections are right")
    try:
        found = documents.parse(read_text(situation.project / "dvc.yaml"), "dvc.yaml")
        stages = found["stages"]
        names = list(stages)
    except SightwordError as error:
        yield problem(str(error).rstrip("."), "Mend it, or have it back: `git checkout -- dvc.yaml`.")
    except (KeyError, TypeError):
        yield problem("dvc.yaml has no stages", "Have it back: `git checkout -- dvc.yaml`.")
    else:
        yield good(f"dvc.yaml: {len(names)} stages")
    path = situation.project / LOCK
    if not path.exists():
        yield warning("there is no dvc.lock: nothing has run here yet", "`dvc repro`, then commit dvc.lock.")
        return
    try:
        lock = read_lock(read_text(path))
    except SightwordError as error:
        where = f"{error.where}: " if error.where else ""
        yield problem(f"{where}{error.what}", error.todo or "Have it back: `git checkout -- dvc.lock`.")
    else:
        yield good(f"dvc.lock: {len(lock.entries)} stages (`make check-lock` tells whether it fits the code)")
        yield from _look_at_metrics(situation.project, lock)


def _look_at_metrics(project: Path, lock: Lock) -> Iterator[Note]:
    """Metrics are in git, where a number can be edited and committed like any text."""
    edited = []
    for entry in lock.entries.values():
        for out in entry.outs:
            path = project / out.path
            if path.suffix == ".json" and path.is_file() and Cache(project).edited(path.read_bytes(), entry, out.path):
                edited.append(out.path)
    if edited:
        yield warning(
            f"edited: {some(edited)} is not what its stage wrote, committed or not",
            "`dvc repro` writes it again; `sightword audit --history FILE:KEY` tells since when.",
        )


def look_at_git(situation: Situation) -> Iterator[Note]:
    """A result can be traced if what made it is in a commit, and the commits are all here."""
    assert situation.project is not None
    project = situation.project
    try:
        asked = _run(project, "rev-parse", "--is-inside-work-tree")
    except OSError:
        yield warning("there is no git on PATH: results cannot be traced", "Install git.")
        return
    if asked.returncode:
        said = asked.stderr.decode(errors="replace")
        if "dubious ownership" in said:
            yield problem(
                "git refuses to work in another user's folder, and DVC with it",
                f"If you trust it: `git config --global --add safe.directory {project}`.",
            )
        else:
            yield warning("this is no git repository: results cannot be traced", "Work in a clone, or `git init`.")
        return
    if _git(project, "rev-parse", "--verify", "-q", "HEAD") is None:
        yield warning("git has no commit yet: results cannot be traced", "Commit the project.")
        return
    yield from _commits(project)
    yield from _changes(project)
    if (_git(project, "config", "core.autocrlf") or "").strip() == "true":
        yield warning(
            "git changes line ends here (core.autocrlf): files get other hashes than in dvc.lock, and all stages run",
            "`git config core.autocrlf false`, then check the files out anew.",
        )


def _commits(project: Path) -> Iterator[Note]:
    if (_git(project, "rev-parse", "--is-shallow-repository") or "").strip() == "true":
        yield warning("this clone is shallow: earlier results cannot be traced", "`git fetch --unshallow`.")
    if _git(project, "symbolic-ref", "-q", "HEAD") is None:
        yield warning(
            "no branch is checked out (detached HEAD): commits made now are easily lost", "`git switch -c NAME`."
        )


def _changes(project: Path) -> Iterator[Note]:
    said = _git(project, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *TRACED)
    if said is None:
        yield problem("git cannot tell what has changed", "Look at what `git status` says.")
        return
    unmerged, changed = [], []
    for item in filter(None, said.split("\0")):
        mark, path = item[:2], item[3:]
        is_code = not path.startswith("data/") or path.endswith(".dvc")
        if "U" in mark or mark in ("AA", "DD"):
            unmerged.append(path)
        elif mark != "??" or is_code:
            changed.append(path)
    if unmerged:
        yield problem(f"a merge is not finished: {some(unmerged)}", "Resolve the conflicts, then `git add` the files.")
    if changed:
        yield warning(
            f"not committed, so a result made now could not be traced: {some(changed)}",
            "Commit before runs whose numbers you keep.",
        )
    if not unmerged and not changed:
        yield good("code, parameters and lock are committed")


def _git(project: Path, *words: str) -> str | None:
    """What git says; None where it fails."""
    done = _run(project, *words)
    return None if done.returncode else done.stdout.decode(errors="replace")


def _run(project: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    # Without optional locks: looking must not be in the way of somebody's commit.
    command = ["git", "--no-optional-locks", *words]
    return subprocess.run(command, cwd=project, capture_output=True, check=False)  # noqa: S603 - fixed words
