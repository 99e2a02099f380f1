"""What the systems of a project declare: the modules of their stages, loaded by name, and ``system.py`` beside these.

A system is a pipeline with its modules: ``stages/`` for the first pipeline, ``stages/<folder>/`` for a further one.
``system.py`` has plain values and small functions for the programs around the stages. All are optional:

- ``conflicts(values)`` returns the conflicts between sections of the parameters, a line each.
- ``encoders(values)`` returns the parameters that name saved encoders of other runs, each with the encoder's folder.
- ``CHECKS`` are the doctor's checks of the system's inputs (:class:`pipeline.doctor.findings.Check`).
- ``COMPARED`` are the results that `sightword compare` tests (:class:`Compared`).
- ``SEED`` is the parameter in which the runs of a group of experiments differ.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pipeline.pipelines import PARAMS, Pipeline, folder_of, full_name, has_code, pipelines, project_of, stage_of
from sightword.errors import LineageError
from sightword.messages import first_line, flat
from sightword.report.departures import published

SYSTEM = "system"
"""The module with a system's declarations."""


@dataclass(frozen=True)
class Compared:
    """A file or folder of a run that `sightword compare` compares."""

    title: str
    what: str
    """The kind of the first column, such as ``pairs of concepts``."""
    path: Path
    compare: Callable[..., list[Any]]
    """Takes the path in A and in B, ``samples`` and ``seed``; returns :class:`pipeline.comparison.parts.Accuracy` or
    ``Measure``; raises a ScoringError where the two cannot be compared."""


def path(pipeline: Pipeline, name: str) -> str:
    """Return the path of a module of a pipeline, beside the packages."""
    return "/".join(filter(None, ("stages", pipeline.folder, f"{name}.py")))


def load(pipeline: Pipeline, name: str) -> ModuleType | None:
    """Return the module of a pipeline's stage, or another one beside it; None where there is none of this name."""
    project = project_of(Path.cwd())
    if "stages" not in sys.modules and has_code(project):
        sys.path.insert(0, str(project))  # as in `dvc repro`, before the installed ones
    return _imported(pipeline.folder, name)


def _imported(folder: str, name: str) -> ModuleType | None:
    module = ".".join(filter(None, ("stages", folder, name)))
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return None


def published_by(entry: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the published parameters of the stage of an entry with these values, by full name.

    Empty for a stage of another program. LineageError: the stage's code cannot be imported.
    """
    folder, name = folder_of(entry), stage_of(entry).rpartition(":")[2]
    try:
        stage = _imported(folder, name)
    except Exception as error:  # noqa: BLE001 - an import runs the code of a stage, which may raise anything
        raise LineageError(f"its code cannot be imported ({first_line(error)})", where=entry) from None
    file = f"{folder}/{PARAMS}" if folder else PARAMS
    kind, settings = {"format": values.get(full_name(file, f"{name}.format"))}, getattr(stage, "SETTINGS", None)
    fields = published(settings, settings.of(kind)) if settings else {}
    return {full_name(file, key): value for key, value in flat({name: fields}).items()}


def declared(pipeline: Pipeline, name: str, default: Any) -> Any:
    """Return what a system declares under a name; ``default`` where it declares no such thing."""
    return getattr(load(pipeline, SYSTEM), name, default)


def encoders(pipeline: Pipeline, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the parameters of a pipeline that name saved encoders of other runs, each with the encoder's folder."""
    named: list[tuple[str, str]] = declared(pipeline, "encoders", lambda _: [])(values)
    return named


def start(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return ``train.start`` with the encoder's folder, where training starts from a saved encoder."""
    train = values.get("train", {})
    return [("train.start", f"{train['encoders']}/{train['start']}")] if train.get("start") else []


def compared() -> list[Compared]:
    """Return what the systems of the current folder's project compare."""
    return [one for system in pipelines(project_of(Path.cwd())) for one in declared(system, "COMPARED", ())]
