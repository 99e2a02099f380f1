"""Run a stage again in a copy with the code, data and parameters of the lock, and compare its outputs byte by byte.

The rest of the code lies there too, since the settings of all stages check the parameters. Features are computed and
models trained anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.lineage.evidence import known_facts
from pipeline.lineage.facts import packages_here
from pipeline.lineage.files import Snapshot, State, Workspace, hash_listing, md5_of_text, put, snapshot
from pipeline.lineage.lock import CODE, Artefact, Entry
from pipeline.lineage.repository import Repository
from pipeline.pipelines import DVC_YAML, IGNORE
from sightword.errors import LineageError
from sightword.io import yaml_reader
from sightword.machine import processor
from sightword.messages import and_more, did_you_mean

_SETTINGS = {"threads": 1, "engine": "torch"}
"""Facts of a run that change last bits, and can be had again by ``SIGHTWORD_THREADS`` and so on; their defaults."""


@dataclass(frozen=True)
class Compared:
    """An output of the rerun: its hash (None: not written) and the lock's hash."""

    path: str
    wanted: str
    found: str | None
    differing: list[str] | None
    """Of a folder that differs: the files, where the cache has its listing."""
    here: State
    """The comparison of the workspace, or of the commit that was asked for, with the lock."""

    @property
    def same(self) -> bool:
        """Whether the bytes are the same."""
        return self.found == self.wanted


@dataclass(frozen=True)
class Verification:
    """The result of a rerun."""

    stage: str
    outs: list[Compared]
    """Empty where the stage failed."""
    exit_code: int
    seconds: float
    remarks: list[str]
    """Possible reasons of a difference."""

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
) -> Verification:
    """Run a stage again, in an empty folder, as the lock of the workspace or of a revision has it.

    A LineageError says that there is no such stage, or that an input is lost.
    """
    here = Workspace(project)
    with Repository(project) as repository:
        then = snapshot(revision, project, repository)
        if stage not in then.lock.entries:
            todo = did_you_mean(stage, then.lock.entries) or f"The stages are {', '.join(then.lock.entries)}."
            raise LineageError("the lock has no such stage", where=stage, todo=todo)
        entry = then.lock.entries[stage]
        if not entry.outs:
            raise LineageError("has no outputs in the lock: there is nothing to compare", where=stage)
        present = [_present(out, entry, here, then) for out in entry.outs]
        head = then.commit or repository.head()
        copy = Copy(folder, here, repository, head.sha if head else None)
        for dep in entry.deps:
            copy.take(dep)
        copy.fill_up(CODE)
        if (project / IGNORE).is_file():
            shutil.copyfile(project / IGNORE, folder / IGNORE)
        copy.write_params(entry)
    run = known_facts(project).of(entry)
    started = time.monotonic()
    done = subprocess.run(  # noqa: S602 - the command is the lock's, and DVC runs it the same way
        entry.command, shell=True, cwd=folder, env=environment(folder, run), stdout=sys.stderr, check=False
    )
    seconds = time.monotonic() - started
    made = Workspace(folder)
    pairs = [] if done.returncode else zip(entry.outs, present, strict=True)
    outs = []
    for out, state in pairs:
        hashed = made.hashed(out.path)
        differing = here.cache.differing(out, hashed.files or {}) if hashed and hashed.md5 != out.md5 else None
        outs.append(Compared(out.path, out.md5, hashed.md5 if hashed else None, differing, state))
    return Verification(stage, outs, done.returncode, seconds, _remarks(run))


class Copy:
    """A folder with the inputs of one entry of a lock, from the workspace, DVC's cache, or a commit of a repository."""

    def __init__(self, folder: Path, here: Workspace, repository: Repository, revision: str | None) -> None:
        self._folder, self._here, self._repository, self._revision = folder, here, repository, revision

    def take(self, dep: Artefact) -> None:
        """Put a file or folder in its place."""
        for find in (self._in_workspace, self._in_cache, self._in_git):
            if (files := find(dep)) is not None:
                if dep.folder:
                    (self._folder / dep.path).mkdir(parents=True, exist_ok=True)  # it may be empty
                put(files, self._folder / dep.path)
                return
        what = f"{dep.md5} is neither here nor, undamaged, in the cache or in git"
        other = "`sightword audit --verify STAGE --rev REV` takes the code of another commit"
        raise LineageError(what, where=dep.path, todo=f"`dvc pull` fetches what was pushed; {other}.")

    def fill_up(self, folders: Sequence[str]) -> None:
        """Add the files of some folders of the commit that are not in the copy yet."""
        for folder in folders:
            names = self._repository.files(self._revision, folder) if self._revision else []
            absent = [name for name in names if not (self._folder / folder / name).exists()]
            put(self._texts(folder, absent), self._folder / folder)

    def write_params(self, entry: Entry) -> None:
        """Write the entry's parameters among those of other stages, the ``dvc.yaml`` beside them, and the first one."""
        put({DVC_YAML: self._committed(DVC_YAML) or b""}, self._folder)  # marks the project's folder
        for name, sections in entry.params.items():
            place, beside = self._folder / name, str(PurePosixPath(name).with_name(DVC_YAML))
            text = self._committed(name)
            values: Any = yaml_reader.parse(text.decode(), name) if text else {}
            for key, value in sections.items():
                values = _placed(values, key.split("."), value)
            written = json.dumps(values, indent=1).encode()
            put({place.name: written, DVC_YAML: self._committed(beside) or b""}, place.parent)
        (self._folder / ".dvc").mkdir(exist_ok=True)  # so that no project around it takes it for one of its pipelines

    def _committed(self, name: str) -> bytes | None:
        """Return a file of the commit, else of the workspace."""
        text = self._repository.read(self._revision, name) if self._revision else None
        file = self._here.project / name
        return file.read_bytes() if text is None and file.is_file() else text

    def _texts(self, path: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the texts of files below a path in the commit; an empty name is the path itself."""
        texts = {name: self._repository.read(self._revision or "", f"{path}/{name}".rstrip("/")) for name in names}
        return {name: text for name, text in texts.items() if text is not None}

    def _in_workspace(self, dep: Artefact) -> Mapping[str, Path] | None:
        if self._here.state(dep) != "ok":
            return None
        files = self._here.files(dep.path)
        return {name: self._here.project / dep.path / name for name in ([""] if files is None else files)}

    def _in_cache(self, dep: Artefact) -> Mapping[str, Path] | None:
        files = self._here.cache.files(dep)
        places = {name: place for name, md5 in files.items() if (place := self._here.cache.sound(md5))}
        return places if files and len(places) == len(files) else None

    def _in_git(self, dep: Artefact) -> Mapping[str, bytes] | None:
        if self._revision is None:
            return None
        texts = self._texts(dep.path, self._repository.files(self._revision, dep.path) if dep.folder else [""])
        hashes = {name: md5_of_text(text) for name, text in texts.items()}
        return texts if (hash_listing(hashes) if dep.folder else hashes.get("")) == dep.md5 else None


def _placed(values: Any, parts: Sequence[str], value: Any) -> Any:
    """Return nested mappings with another value at a place."""
    if not parts:
        return value
    inside = values if isinstance(values, Mapping) else {}
    return {**inside, parts[0]: _placed(inside.get(parts[0]), parts[1:], value)}


def environment(folder: Path, run: dict[str, Any] | None) -> dict[str, str]:
    """Return the variables of a rerun in a folder: the user's own, and the machine's settings of the first run."""
    inherited = ((name, value) for name, value in os.environ.items() if name != "PYTHONPATH")
    variables = {name: value for name, value in inherited if not name.startswith("DVC_")}
    # DVC does not put its own environment on PATH: the rerun uses the environment of this process.
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables.get('PATH', '')}"
    variables |= {"SIGHTWORD_STORE": str(folder / ".store"), "SIGHTWORD_SCRATCH": str(folder / ".scratch")}
    if run is not None:
        for name, default in _SETTINGS.items():
            variables.setdefault(f"SIGHTWORD_{name.upper()}", str(run.get(name, default)))
        if run.get("device") == "cpu":
            variables.setdefault("SIGHTWORD_DEVICE", "cpu")
    return variables


def _present(out: Artefact, maker: Entry, here: Workspace, then: Snapshot) -> State:
    """Return whether an output in the workspace, or in a commit, is the one of the lock."""
    if then.commit is None:
        return here.state(out)
    text = None if out.folder else then.read(out.path)
    return "missing" if text is None else "changed since" if here.cache.edited(text, maker, out.path) else "ok"


def _remarks(run: dict[str, Any] | None) -> list[str]:
    """Return the differences between this machine and the one of the first run."""
    if run is None:
        return ["the facts of the first run are not known: machine, packages or threads may have been others"]
    packages = packages_here()
    others = [f"{name} {then} then, {packages.get(name)} now"
              for name, then in run["packages"].items() if packages.get(name) != then]  # fmt: skip
    remarks = [f"packages: {and_more(others, 8, between='; ')}"] if others else []
    settings = [(name, str(run.get(name, default))) for name, default in _SETTINGS.items()]
    now = [(name, then, os.environ.get(f"SIGHTWORD_{name.upper()}", then)) for name, then in settings]
    for name, then, here in (("processor", run["processor"], processor()), *now):
        remarks += [f"{name}: {then} then, {here} now"] if then != here else []
    return remarks + ([f"device: {run['device']} then"] if run["device"] != "cpu" else [])
