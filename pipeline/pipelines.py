"""The pipelines of a project: that of its own folder, and one for each folder directly below with a ``dvc.yaml``.

Each pipeline has a ``dvc.yaml``, a ``params.yaml`` and a ``dvc.lock`` of its own. Every stage of a pipeline in a folder
has ``wdir: ..``: its command runs in the project's folder, and all paths in its ``dvc.lock`` are from there. So the
entries of all locks form one graph, and a stage has one name over all pipelines.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightword import yaml_reader
from sightword.errors import FileFormatError, SetupError
from sightword.files import read_text

DVC_YAML, PARAMS, LOCK = "dvc.yaml", "params.yaml", "dvc.lock"
LOCKS = (LOCK, f":(glob)*/{LOCK}")
"""The locks of all pipelines, as git's pathspecs."""


@dataclass(frozen=True)
class Pipeline:
    """One pipeline; ``dvc_yaml``, ``params`` and ``lock`` are the paths of its files from the project's folder."""

    project: Path
    folder: str = ""
    """The name of its folder; empty for the project's own."""

    @property
    def dvc_yaml(self) -> str:
        """The file of its stages."""
        return self._path(DVC_YAML)

    @property
    def params(self) -> str:
        """The file of its parameters."""
        return self._path(PARAMS)

    @property
    def lock(self) -> str:
        """The file that DVC writes of its runs."""
        return self._path(LOCK)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    @functools.cached_property
    def document(self) -> Mapping[str, Any]:
        """The whole ``dvc.yaml``; a FileFormatError where it is absent or invalid, or a stage lacks ``wdir: ..``."""
        found = yaml_reader.parse(read_text(self.project / self.dvc_yaml), self.dvc_yaml)
        stages = found.get("stages") if isinstance(found, Mapping) else None
        if not isinstance(stages, Mapping) or not all(isinstance(one, Mapping) for one in stages.values()):
            raise FileFormatError("has no stages", where=self.dvc_yaml, todo=f"`git checkout -- {self.dvc_yaml}`")
        for name, stage in stages.items():
            if self.folder and stage.get("wdir") != "..":
                where = f"{self.dvc_yaml}: {name}"
                raise FileFormatError("does not run in the project's folder", where=where, expected="wdir: ..")
        return dict(found)

    @property
    def stages(self) -> Mapping[str, Mapping[str, Any]]:
        """The description of each stage, in the file's order; errors are those of :attr:`document`."""
        stages: Mapping[str, Mapping[str, Any]] = self.document["stages"]
        return stages


def find_project(start: Path) -> Path:
    """Return the nearest folder with ``dvc.yaml`` and ``.dvc``, itself or above; without ``.dvc``, with ``dvc.yaml``.

    Raises:
        SetupError: there is none.
    """
    above = [folder for folder in (start.absolute(), *start.absolute().parents) if (folder / DVC_YAML).is_file()]
    if above:
        return next((folder for folder in above if (folder / ".dvc").is_dir()), above[0])
    raise SetupError(
        "no dvc.yaml here or in a folder above", where=start.absolute(), todo="Go to a clone of Sightword's repository."
    )


def project_of(start: Path) -> Path:
    """Return the project of a folder, else of the current folder, else the clone with this code, as above."""
    for folder in (start, Path.cwd(), Path(__file__).parents[1]):
        with contextlib.suppress(SetupError):
            return find_project(folder)
    return find_project(start)


def pipelines(project: Path) -> list[Pipeline]:
    """Return the pipelines of a project: its own, then those of its folders by name; a ``.dvc`` marks another."""
    below = sorted(
        file.parent.name
        for file in project.glob(f"*/{DVC_YAML}")
        if not file.parent.name.startswith(".") and file.with_name(PARAMS).is_file()
        if not file.with_name(".dvc").exists()
    )
    return [Pipeline(project, folder) for folder in ("", *below)]


def by_stage(project: Path) -> dict[str, Pipeline]:
    """Return the pipeline of each stage of a project, in the order of the files.

    Raises:
        FileFormatError: a ``dvc.yaml`` cannot be read, or two have a stage of the same name.
    """
    found: dict[str, Pipeline] = {}
    for pipeline in pipelines(project):
        for name in pipeline.stages:
            if name in found:
                what = f"has the stage {name}, and so has {found[name].dvc_yaml}"
                expected = "one name for one stage over all pipelines"
                raise FileFormatError(what, where=pipeline.dvc_yaml, expected=expected)
            found[name] = pipeline
    return found


def of_sections(sections: Iterable[object], project: Path) -> Pipeline:
    """Return the pipeline of a project whose stages are most of some sections; at a tie the first."""
    names = list(sections)
    own = by_stage(project)
    return max(pipelines(project), key=lambda one: sum(name in own and own[name] == one for name in names))
