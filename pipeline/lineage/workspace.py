"""The files, parameters and commands of the workspace beside those of the lock."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pipeline.lineage import documents
from pipeline.lineage.cache import Cache
from pipeline.lineage.hashing import Hashed, Ignored, Report, hash_path
from pipeline.lineage.lock import Artefact, Entry
from pipeline.pipelines import pipelines
from sightword.errors import SightwordError
from sightword.io.files import read_text

State = Literal["ok", "changed since", "missing", "not checked out", "not known"]
"""``not checked out``: the output of another run that facts know lies here."""


class Workspace:
    """A project's folder, or None for a repository without files; each path in it is hashed once."""

    def __init__(self, project: Path | None, report: Report | None = None) -> None:
        self.project, self.cache = project, Cache(project)
        self._report = report
        self._ignored = Ignored(project) if project else None
        self._hashed: dict[str, Hashed | None] = {}
        self._values: dict[str, Any] = {}
        self._broken: list[str] = []

    def hashed(self, path: str) -> Hashed | None:
        """Return the hash of a file or folder; None where it is not there, or cannot be read."""
        if path not in self._hashed and self.project and self._ignored:
            try:
                self._hashed[path] = hash_path(self.project / path, self._ignored, self._report)
            except OSError:
                self._hashed[path] = None
        return self._hashed.get(path)

    def files(self, path: str) -> dict[str, str] | None:
        """Return the MD5 of each file of a folder; None for a file, and where the folder cannot be read."""
        found = self.hashed(path)
        return found.files if found else None

    def state(self, artefact: Artefact) -> State:
        """Compare a file or folder with the lock."""
        if self.project is None or not (self.project / artefact.path).exists():
            return "missing"
        found = self.hashed(artefact.path)
        return "not known" if found is None else "ok" if found.md5 == artefact.md5 else "changed since"

    @functools.cached_property
    def commands(self) -> dict[str, str]:
        """The command of each stage, and of each item of a matrix, as far as ``dvc.yaml`` can be read."""
        found: dict[str, str] = {}
        for pipeline in pipelines(self.project) if self.project else ():
            try:
                found |= {name: one["cmd"] for name, one in pipeline.runs().items()}
            except (SightwordError, KeyError):
                self._broken.append(pipeline.dvc_yaml)
        return found

    def unread(self, entry: Entry) -> list[str]:
        """Return the files with the parameters and the command of a stage that are absent or cannot be read."""
        files = [file for file in entry.params if self.project and self._params(file) is None]
        return files + ([] if entry.name in self.commands else self._broken)

    def changed_params(self, entry: Entry) -> dict[str, tuple[Any, Any]]:
        """Return the parameters that changed, by full name: then and now; None stands for an absent one."""
        changed: dict[str, tuple[Any, Any]] = {}
        for file in entry.params:
            if (now := self._params(file)) is not None:
                changed |= entry.changed_params(file, now)
        return changed

    def _params(self, file: str) -> Mapping[str, Any] | None:
        """Return the values of a parameter file; None where it cannot be read."""
        if file not in self._values and self.project:
            try:
                self._values[file] = documents.parse(read_text(self.project / file), file)
            except SightwordError:
                self._values[file] = None
        found = self._values.get(file)
        return found if isinstance(found, Mapping) else None
