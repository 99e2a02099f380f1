"""Running a stage again in a copy, to compare its outputs with the lock byte by byte.

The copy has what the lock names: its code, its data, its parameters. (The rest of the code lies beside it, since
parameters are checked as a whole, by the settings of all stages.) Features are computed and models trained
anew, unless the user's own store and scratch folders are asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.lineage import documents
from pipeline.lineage.facts import packages_here, processor, read_facts
from pipeline.lineage.hashing import IGNORE, hash_listing
from pipeline.lineage.history import CODE
from pipeline.lineage.lock import Artefact, Entry
from pipeline.lineage.locks import lock_at, lock_here
from pipeline.lineage.repository import Commit, Repository
from pipeline.lineage.workspace import State, Workspace
from pipeline.pipelines import DVC_YAML
from sightword.errors import LineageError
from sightword.text import and_more, did_you_mean


@dataclass(frozen=True)
class Compared:
    """An output of the rerun beside the lock's."""

    path: str
    wanted: str
    """DVC's hash in the lock."""
    found: str | None
    """Of what the rerun wrote; None where it did not write it."""
    differing: list[str] | None
    """Of a folder that differs: the files, where the cache knows what they were."""
    here: State
    """What lies here, or in the commit that was asked for, beside the lock's."""

    @property
    def same(self) -> bool:
        """Whether the bytes are the same."""
        return self.found == self.wanted


@dataclass(frozen=True)
class Verification:
    """What a rerun gave."""

    stage: str
    outs: list[Compared]
    """Empty where the stage failed."""
    exit_code: int
    seconds: float
    remarks: list[str]
    """What may explain a difference."""

    @property
    def same(self) -> bool:
        """Whether the rerun ended well, all bytes are the same, and the outputs that lie here are those of the lock."""
        return self.exit_code == 0 and all(out.same and out.here != "changed since" for out in self.outs)


def verify(
    stage: str,
    project: Path,
    folder: Path,
    *,
    revision: str = "",
    facts: Sequence[Path] = (),
    warm: bool = False,
    report: Callable[[int], object] | None = None,
) -> Verification:
    """Run a stage again as the lock has it.

    Args:
        stage: its name.
        project: the folder with ``dvc.lock``.
        folder: an empty one, for the copy.
        revision: a commit or experiment whose lock is meant; empty: the workspace's.
        facts: folders with facts of runs: the number of threads is taken from there, since it can change the last
            bits.
        warm: use the store and the scratch folder of the environment, which is faster and proves less.
        report: called now and then with the number of bytes hashed.

    Raises:
        LineageError: there is no such stage, or one of its inputs is lost.
    """
    here = Workspace(project, report)
    with Repository(project) as repository:
        commit = repository.commit(revision) if revision else repository.head()
        lock = lock_at(repository, commit) if revision and commit else lock_here(project)
        if stage not in lock.entries:
            todo = did_you_mean(stage, lock.entries) or f"The stages are {', '.join(lock.entries)}."
            raise LineageError("the lock has no such stage", where=stage, todo=todo)
        entry = lock.entries[stage]
        if not entry.outs:
            raise LineageError("has no outputs in the lock: there is nothing to compare", where=stage)
        present = {out.path: _present(out, entry, here, repository, commit if revision else None) for out in entry.outs}
        copy = Copy(folder, here, repository, commit.sha if commit else None)
        for dep in entry.deps:
            copy.take(dep)
        copy.fill_up(CODE)
        if (project / IGNORE).is_file():
            shutil.copyfile(project / IGNORE, folder / IGNORE)
        copy.write_params(entry)
    run = read_facts(entry, facts)
    environment = _environment(folder, run, warm=warm)
    started = time.monotonic()
    done = subprocess.run(  # noqa: S602 - the command is the lock's, and DVC runs it the same way
        entry.command, shell=True, cwd=folder, env=environment, stdout=sys.stderr, check=False
    )
    seconds = time.monotonic() - started
    outs = (
        []
        if done.returncode
        else [_compared(out, here, Workspace(folder, report), present[out.path]) for out in entry.outs]
    )
    return Verification(stage, outs, done.returncode, seconds, _remarks(run))


class Copy:
    """A folder with what one entry of a lock needs.

    Args:
        folder: empty.
        here: the workspace, from which what still is as it was is taken.
        repository: what was committed.
        revision: the commit that may have what the workspace has no more.
    """

    def __init__(self, folder: Path, here: Workspace, repository: Repository, revision: str | None) -> None:
        self._folder, self._here, self._repository, self._revision = folder, here, repository, revision

    def take(self, dep: Artefact) -> None:
        """Put a file or folder in its place: from the workspace, from DVC's cache, or from git.

        Raises:
            LineageError: none of them has it.
        """
        place = self._folder / dep.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if not (self._from_workspace(dep, place) or self._from_cache(dep, place) or self._from_git(dep, place)):
            raise LineageError(
                f"{dep.md5} is neither here nor, undamaged, in the cache or in git",
                where=dep.path,
                todo="`dvc pull` fetches what was pushed; `sightword audit --verify STAGE --rev REV` takes the code of "
                "another commit.",
            )

    def fill_up(self, folders: Sequence[str]) -> None:
        """Add the files of some folders that are not in the copy yet, as they are in the commit, or here."""
        for folder in folders:
            names = self._repository.files(self._revision, folder) if self._revision else []
            for name in names:
                place = self._folder / folder / name
                text = None if place.exists() else self._repository.read(self._revision or "", f"{folder}/{name}")
                if text is not None:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(text)

    def write_params(self, entry: Entry) -> None:
        """Write the parameters that the entry has, among those of the other stages, and the ``dvc.yaml`` beside them.

        Raises:
            LineageError: there is no file of parameters.
        """
        for name, sections in entry.params.items():
            place, beside = self._folder / name, str(PurePosixPath(name).with_name(DVC_YAML))
            place.parent.mkdir(parents=True, exist_ok=True)
            text = self._committed(name)
            values: Any = documents.parse(text.decode(), name) if text else {}
            place.write_text(json.dumps({**values, **sections}, indent=1), encoding="utf-8")
            place.with_name(DVC_YAML).write_bytes(self._committed(beside) or b"")
        (self._folder / ".dvc").mkdir(exist_ok=True)  # so that no project around it takes it for one of its pipelines

    def _committed(self, name: str) -> bytes | None:
        """A file as it is in the commit, else as it lies here."""
        text = self._repository.read(self._revision, name) if self._revision else None
        own = self._here.project / name if self._here.project else None
        return own.read_bytes() if text is None and own is not None and own.is_file() else text

    def _from_workspace(self, dep: Artefact, place: Path) -> bool:
        project = self._here.project
        if project is None or self._here.state(dep) != "ok":
            return False
        hashed = self._here.hashed(dep.path)
        assert hashed is not None
        for name in [""] if hashed.files is None else hashed.files:
            _put(project / dep.path / name if name else project / dep.path, place / name if name else place)
        if hashed.files is not None:
            place.mkdir(exist_ok=True)  # it may be empty
        return True

    def _from_cache(self, dep: Artefact, place: Path) -> bool:
        cache = self._here.cache
        names = cache.listing(dep) if dep.folder else {"": dep.md5}
        found = {name: cache.sound(md5) for name, md5 in names.items()}
        if not found or not all(found.values()):
            return False
        for name, path in found.items():
            assert path is not None
            _put(path, place / name if name else place)
        return True

    def _from_git(self, dep: Artefact, place: Path) -> bool:
        if self._revision is None:
            return False
        names = self._repository.files(self._revision, dep.path) if dep.folder else [""]
        texts = {
            name: text
            for name in names
            if (text := self._repository.read(self._revision, f"{dep.path}/{name}" if name else dep.path)) is not None
        }
        hashes = {name: hashlib.md5(text, usedforsecurity=False).hexdigest() for name, text in texts.items()}
        if (hash_listing(hashes) if dep.folder else hashes.get("")) != dep.md5:
            return False
        for name, text in texts.items():
            path = place / name if name else place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        return True


def _put(source: Path, place: Path) -> None:
    """A copy of code, which Python may write beside; a link to data, which may be large."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".py":
        shutil.copyfile(source, place)
    else:
        place.symlink_to(source.resolve())


def _environment(folder: Path, run: dict[str, Any] | None, *, warm: bool) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("DVC_") and name != "PYTHONPATH"}
    # DVC does not put its own environment on PATH either; here the one that runs is meant.
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
    if not warm:
        own |= {"SIGHTWORD_STORE": str(folder / ".store"), "SIGHTWORD_SCRATCH": str(folder / ".scratch")}
    if run is not None and "SIGHTWORD_THREADS" not in own:
        own["SIGHTWORD_THREADS"] = str(run["threads"])
    return own


def _present(out: Artefact, maker: Entry, here: Workspace, repository: Repository, commit: Commit | None) -> State:
    """Whether an output that lies here, or is in a commit, is the one of the lock."""
    if commit is None:
        return here.state(out)
    text = None if out.folder else repository.read(commit.sha, out.path)
    return "missing" if text is None else "changed since" if here.cache.edited(text, maker, out.path) else "ok"


def _compared(out: Artefact, here: Workspace, copy: Workspace, present: State) -> Compared:
    found = copy.hashed(out.path)
    differing = None
    before = here.cache.listing(out)
    if found is not None and found.md5 != out.md5 and before:
        after = found.files or {}
        differing = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return Compared(out.path, out.md5, found.md5 if found else None, differing, present)


def _remarks(run: dict[str, Any] | None) -> list[str]:
    """The differences between this machine and the one of the first run."""
    if run is None:
        return ["the facts of the first run are not known: machine, packages or threads may have been others"]
    packages = packages_here()
    others = [f"{name} {version} then, {packages.get(name)} now" for name, version in run["packages"].items()
              if packages.get(name) != version]  # fmt: skip
    found = [f"packages: {and_more(others, 8, between='; ')}"] if others else []
    if run["processor"] != processor():
        found.append(f"processor: {run['processor']} then, {processor()} now")
    if run["device"] != "cpu":
        found.append(f"device: {run['device']} then")
    threads = os.environ.get("SIGHTWORD_THREADS")
    if threads and threads != str(run["threads"]):
        found.append(f"threads: {run['threads']} then, {threads} now (SIGHTWORD_THREADS)")
    return found
