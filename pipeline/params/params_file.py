"""``params.yaml``: one section for each stage of the ``dvc.yaml`` beside it, the whole file checked at once.

The settings of a section are ``SETTINGS`` in the stage's module, which is imported by name: the result of a stage
depends on its own section only, so the settings of the others are not a dependency of the stage. The rules between
sections are ``conflicts`` of the system (:mod:`pipeline.systems`).
"""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline import pipelines, systems
from pipeline.pipelines import Pipeline
from sightword.errors import FileFormatError, ParamsError
from sightword.io import yaml_reader
from sightword.io.files import Pathish, read_text
from sightword.messages import guess, quote
from sightword.settings import Settings, explain


def settings_class(pipeline: Pipeline, section: str) -> type[Settings]:
    """Return the typed settings of a stage of a pipeline; ParamsError where ``stages/`` has no module of its name."""
    module = systems.load(pipeline, section)
    if module is None:
        what = f"{pipeline.dvc_yaml} has this stage, and there is no {systems.path(pipeline, section)}"
        raise ParamsError(what, where=section)
    settings: type[Settings] = module.SETTINGS
    return settings


def load(path: Pathish = "params.yaml") -> dict[str, Settings]:
    """Read and check a whole parameter file.

    Its sections are the stages of the ``dvc.yaml`` beside it. Another file belongs to the pipeline whose
    stages are its sections. Every key must be there: a default that is not in the file could not be audited.

    Returns:
        The typed sections by name.

    Raises:
        ParamsError: the file has errors; each has a line with key, value and accepted values.
    """
    values = _read(path)
    place = Path(path).absolute()
    project = pipelines.project_of(place.parent)
    beside = [one for one in pipelines.pipelines(project) if project / one.params == place]
    return check(values, where=path, pipeline=beside[0] if beside else pipelines.of_sections(values, project))


def section(path: Pathish, name: str) -> Settings:
    """Check the whole file, and return one section."""
    sections = load(path)
    if name not in sections:
        raise ParamsError("has no such section", where=f"{path}: {name}", expected=", ".join(sections))
    return sections[name]


def check(values: dict[str, Any], *, where: object = "params", pipeline: Pipeline | None = None) -> dict[str, Settings]:
    """Check plain values by section as :func:`load` does; messages name the file ``where``.

    The stages of the pipeline are the required sections; None means the pipeline that the values fit best.
    """
    pipeline = pipeline or pipelines.of_sections(values, pipelines.project_of(Path.cwd()))
    sections = list(pipeline.stages)
    known = f"; accepted: {', '.join(sections)}"
    problems = [f"{key}: no such section{guess(key, sections) or known}" for key in values if key not in sections]
    checked: dict[str, Settings] = {}
    for name in sections:
        if name not in values:
            problems.append(f"{name}: the section is missing")
            continue
        if not isinstance(values[name], dict):
            problems.append(f"{name} = {quote(values[name])}: not a section (expected key: value lines below it)")
            continue
        wanted = settings_class(pipeline, name).of(values[name])
        problems += _missing(wanted, values[name], name)
        try:
            checked[name] = wanted.model_validate(values[name])
        except ValidationError as error:
            lines = (explain(wanted, item, name) for item in error.errors() if item["type"] != "missing")
            problems += dict.fromkeys(lines)
    conflicts = systems.declared(pipeline, "conflicts", lambda _: [])
    problems += conflicts({name: settings.model_dump() for name, settings in checked.items()})
    if problems:
        count = "1 entry is" if len(problems) == 1 else f"{len(problems)} entries are"
        todo = "\nFix the file, or write it anew from a recipe with `sightword params --recipe NAME`."
        raise ParamsError("\n  ".join([f"{count} wrong:", *problems]), where=where, todo=todo)
    return checked


def _read(path: Pathish) -> dict[str, Any]:
    try:
        values = yaml_reader.parse(read_text(path, todo="Write one with `sightword params --recipe sample`."), path)
    except FileFormatError as error:
        raise ParamsError(error.what, where=error.where, todo=error.todo) from None
    if not isinstance(values, dict):
        raise ParamsError("has no sections", where=path, todo="Try `sightword params --recipe sample`.")
    return values


def _missing(wanted: type[Settings], values: dict[str, Any], prefix: str) -> list[str]:
    """Return a line for each key that the file lacks, with its published value."""
    problems = []
    for name, field in wanted.model_fields.items():
        if name not in values:
            value = field.get_default(call_default_factory=True)
            spelt = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
            hint = "" if field.is_required() else f"; its published value is {spelt}"
            problems.append(f"{prefix}.{name}: the key is missing{hint}")
        elif (nested := _nested(field.annotation)) and isinstance(values[name], dict):
            problems += _missing(nested, values[name], f"{prefix}.{name}")
    return problems


def _nested(annotation: Any) -> type[Settings] | None:
    """Return the settings class in an annotation such as ``Weights`` or ``Weights | None``."""
    options = typing.get_args(annotation) or (annotation,)
    return next((one for one in options if isinstance(one, type) and issubclass(one, Settings)), None)
