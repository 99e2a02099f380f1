"""Checks of the files that parameters name, for the systems' own checks; and of the encoders that systems declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pipeline import systems
from pipeline.doctor.context import Context
from pipeline.doctor.findings import Finding, failure, good, problem, warning
from sightword.encoder.pretrained import ENCODER, require_encoder
from sightword.errors import SemanticsError, SightwordError
from sightword.messages import and_more

README = "data/raw/README.md describes where it belongs; `sightword fetch --help` lists what can be downloaded."


def advice(context: Context, path: str) -> str:
    """Return how a missing path is had: from DVC where a ``.dvc`` file tracks it, else as the README says."""
    return f"`dvc pull {path}.dvc`." if (context.root / f"{path}.dvc").is_file() else README


def exist(context: Context, named: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the files and folders that parameters name exist."""
    for parameter, file in named.items():
        if (context.root / file).exists():
            yield good(f"{parameter}: {file} exists")
        else:
            yield problem(f"{parameter}: {file} does not exist", "Put it there, or fix the name.")


def tried(context: Context, parameter: str, path: str, read: Callable[[], object]) -> Finding:
    """Return whether what a parameter names can be read: what the error of ``read`` says, if there is one."""
    try:
        read()
    except SightwordError as error:
        found = failure(error, advice(context, path))
        return replace(found, what=f"{parameter}: {found.what}")
    return good(f"{parameter}: {path} can be read")


def check_encoders(context: Context) -> Iterator[Finding]:
    """Check the saved encoders that parameters name as the stages read them, but for weights and vocabulary."""
    named: dict[str, list[str]] = {}
    for system, sections in context.sections.items():
        values = {name: settings.model_dump() for name, settings in sections.items()}
        for parameter, path in systems.encoders(system, values):
            named.setdefault(path, []).append(system.full_name(parameter))
    for path, parameters in named.items():
        parameter = ", ".join(parameters)
        place = context.root / path
        if place.exists():
            yield tried(context, parameter, path, partial(_read_encoder, place, quick=context.quick))
        else:
            yield problem(f"{parameter}: {path} does not exist", advice(context, path))
    if not named:
        yield good("no parameter names an encoder of another run")


def _read_encoder(place: Path, *, quick: bool) -> None:
    require_encoder(place)
    if not quick:  # large files are read whole
        ENCODER.read(place)


def tasks(context: Context, parameter: str, settings: Any, wanted: Sequence[str]) -> Iterator[Finding]:
    """Check that the folder ``settings.data``, which a parameter names, has the files of SentEval's tasks."""
    from sightword.evaluation.semantics.datasets import missing_file

    if not wanted:
        return
    data, named = context.root / settings.data, f"{parameter} = {settings.data}"
    if not (data / "downstream").is_dir() and settings.data.startswith("data/corpus/"):
        yield good(f"{named}: the stage corpus makes it")
        return
    try:
        missing = {task: missing_file(task, data) for task in wanted}
    except SemanticsError as error:
        found = failure(error, advice(context, settings.data))
        yield replace(found, what=f"{named}: {found.what}")
        return
    gone = [f"{task} ({file})" for task, file in missing.items() if file is not None]
    if gone and settings.missing == "skip":
        yield warning(f"{named} lacks {and_more(gone, 5)}: left out", README)
    elif gone:
        yield problem(f"{named} lacks {and_more(gone, 5)}", advice(context, settings.data))
    else:
        yield good(f"{named} has the files of {len(wanted)} tasks")
