"""What lies in the workspace, beside what the lock says of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pipeline.lineage import documents
from pipeline.lineage.cache import Cache
from pipeline.lineage.hashing import Hashed, Ignored, hash_path
from pipeline.lineage.lock import Artefact, Entry
from pipeline.pipelines import pipelines
from sightword.errors import FileFormatError, LineageError
from sightword.text import flat

State = Literal["ok", "changed since", "missing", "not known"]


class Workspace:
    """A project's folder; each path in it is hashed once.

    Args:
        project: the folder with ``dvc.yaml``; None for a repository without files.
        report: called now and then with the number of bytes read.
    """

    def __init__(self, project: Path | None, report: Callable[[int], object] | None = None) -> None:
        self.project = project
        self._report = report
        self._ignored = Ignored(project) if project else None
        self.cache = Cache(project)
        self._hashed: dict[str, Hashed | None] = {}
        self._documents: dict[str, Any] = {}

    def hashed(self, path: str) -> Hashed | None:
        """The hash of a file or folder; None where it is not there, or cannot be read."""
        if self.project is None or self._ignored is None:
            return None
        if path not in self._hashed:
            try:
                self._hashed[path] = hash_path(self.project / path, self._ignored, self._report)
            except OSError:
                self._hashed[path] = None
        return self._hashed[path]

    def bytes_to_read(self, artefacts: list[Artefact]) -> int:
        """What hashing some artefacts will read, as far as the lock knows."""
        by_path = {one.path: one.size or 0 for one in artefacts if one.path not in self._hashed}
        return sum(by_path.values())

    def state(self, artefact: Artefact) -> State:
        """Whether a file or folder still is as the lock has it."""
        if self.project is None or not (self.project / artefact.path).exists():
            return "missing"
        found = self.hashed(artefact.path)
        return "not known" if found is None else "ok" if found.md5 == artefact.md5 else "changed since"

    def differing(self, artefact: Artefact) -> list[str] | None:
        """The files of a folder that are not as they were, if the cache has the listing of the folder."""
        before = self.cache.listing(artefact)
        now = self.hashed(artefact.path)
        if not before or now is None or now.files is None:
            return None
        return sorted(name for name in {*before, *now.files} if before.get(name) != now.files.get(name))

    @functools.cached_property
    def _described(self) -> dict[str, dict[str, str] | None]:
        """The command of each stage, by the ``dvc.yaml`` of its pipeline; None for one that cannot be read."""
        found: dict[str, dict[str, str] | None] = {}
        for pipeline in pipelines(self.project) if self.project else ():
            try:
                found[pipeline.dvc_yaml] = {name: one["cmd"] for name, one in pipeline.stages.items()}
            except (FileFormatError, KeyError):
                found[pipeline.dvc_yaml] = None
        return found

    @property
    def commands(self) -> dict[str, str]:
        """The command of each stage, as far as ``dvc.yaml`` can be read."""
        return {name: command for stages in self._described.values() for name, command in (stages or {}).items()}

    def unread(self, entry: Entry) -> list[str]:
        """Which files with the parameters and the command of a stage are not there, or cannot be read."""
        if self.project is None:
            return []
        files = [file for file in entry.params if not isinstance(self._document(file), Mapping)]
        lost = [] if entry.name in self.commands else [name for name, one in self._described.items() if one is None]
        return files + lost

    def changed_params(self, entry: Entry) -> dict[str, tuple[Any, Any]]:
        """Parameters that are not as they were, by full name: then and now; None for what is not there."""
        changed: dict[str, tuple[Any, Any]] = {}
        for file, sections in entry.params.items():
            now: Any = self._document(file)
            if not isinstance(now, Mapping):
                continue
            before, after = flat(sections), flat({name: now.get(name) for name in sections})
            changed |= {
                name: (before.get(name), after.get(name))
                for name in [*before, *(name for name in after if name not in before)]
                if before.get(name) != after.get(name)
            }
        return changed

    def _document(self, name: str) -> Any:
        if self.project is None:
            return None
        if name not in self._documents:
            try:
                found = documents.parse((self.project / name).read_text(encoding="utf-8"), name)
            except (OSError, UnicodeDecodeError, LineageError):
                found = None
            self._documents[name] = found
        return self._documents[name]
