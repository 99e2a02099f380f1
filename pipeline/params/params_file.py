"""``params.yaml``: one section for each stage of the ``dvc.yaml`` beside it, the whole file checked at once.

The settings of a section are ``SETTINGS`` in the stage's module, which is imported by name: the result of a stage
depends on its own section only, so the settings of the others are not a dependency of the stage.
"""

from __future__ import annotations

import importlib.util
import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from pipeline import pipelines
from sightword.errors import FileFormatError, ParamsError
from sightword.io import yaml_reader
from sightword.io.files import Pathish, read_text
from sightword.messages import guess, quote
from sightword.settings import Settings


def settings_class(section: str) -> type[Settings]:
    """Return the typed settings of a stage.

    Raises:
        ParamsError: no module in ``stages/`` has this name.
    """
    name = f"stages.{section}"
    if importlib.util.find_spec("stages") is None:
        # The program `sightword` lies elsewhere, so stages/ is in the project, or with this code.
        sys.path += [str(pipelines.project_of(Path.cwd())), str(pipelines.shipped())]
    try:
        found: type[Settings] = importlib.import_module(name).SETTINGS
    except ModuleNotFoundError as error:
        if error.name not in ("stages", name):
            raise
        raise ParamsError("dvc.yaml has this stage, and stages/ has no module of its name", where=section) from None
    return found


def load(path: Pathish = "params.yaml") -> dict[str, Settings]:
    """Read and check a whole parameter file.

    Its sections are the stages of the ``dvc.yaml`` beside it. Another file, such as a recipe, belongs to the pipeline
    whose stages are its sections. Every key must be there: a default that is not in the file could not be audited.

    Returns:
        The typed sections by name.

    Raises:
        ParamsError: the file has errors; each has a line with key, value and accepted values.
    """
    values = _read(path)
    return check(values, where=path, sections=list(pipeline_of(path, values).stages))


def section(path: Pathish, name: str) -> Settings:
    """Check the whole file, and return one section."""
    found = load(path)
    if name not in found:
        raise ParamsError("has no such section", where=f"{path}: {name}", expected=", ".join(found))
    return found[name]


def pipeline_of(path: Pathish, values: dict[str, Any] | None = None) -> pipelines.Pipeline:
    """Return the pipeline that a parameter file belongs to.

    Args:
        path: the file.
        values: its values; None reads the file.

    Raises:
        ParamsError: the file cannot be read.
        FileFormatError: a ``dvc.yaml`` cannot be read.
    """
    place = Path(path).absolute()
    project = pipelines.project_of(place.parent)
    beside = [one for one in pipelines.pipelines(project) if project / one.params == place]
    return beside[0] if beside else pipelines.of_sections(_read(path) if values is None else values, project)


def check(
    values: dict[str, Any], *, where: object = "params", sections: Sequence[str] | None = None
) -> dict[str, Settings]:
    """Check plain values as :func:`load` does.

    Args:
        values: the values by section.
        where: the file, for messages.
        sections: the required sections; None means the stages of the pipeline that the values fit best.
    """
    if sections is None:
        sections = list(pipelines.of_sections(values, pipelines.project_of(Path.cwd())).stages)
    problems = [_unknown(key, sections, "section") for key in values if key not in sections]
    found: dict[str, Settings] = {}
    for name in sections:
        if name not in values:
            problems.append(f"{name}: the section is missing")
            continue
        if not isinstance(values[name], dict):
            problems.append(f"{name} = {quote(values[name])}: not a section (expected key: value lines below it)")
            continue
        wanted = settings_class(name).of(values[name])
        problems += _missing(wanted, values[name], name)
        try:
            found[name] = wanted.model_validate(values[name])
        except ValidationError as error:
            problems += [_explain(wanted, name, item) for item in error.errors() if item["type"] != "missing"]
    problems += _across({name: settings.model_dump() for name, settings in found.items()})
    if problems:
        count = "1 entry is" if len(problems) == 1 else f"{len(problems)} entries are"
        todo = "\nFix the file, or write it anew from a recipe with `sightword recipe NAME`."
        raise ParamsError("\n  ".join([f"{count} wrong:", *problems]), where=where, todo=todo)
    return found


def _across(values: dict[str, dict[str, Any]]) -> list[str]:
    """Return the conflicts between two sections, so that they are reported before costly work."""
    problems = []
    if "train" in values and "select" in values:
        train, members = values["train"], values["select"]["members"]
        every = train["snapshots"] == "epoch" and values["select"]["candidates"] == "all"
        kept = train["epochs"] if every else train["epochs"] // train["cycle"]
        if members > kept:
            causes = "train.epochs, train.cycle, train.snapshots, select.candidates"
            problems.append(f"select.members = {members}: there are {kept} to choose from ({causes})")
        if values["select"]["beside"] and train["similarity"] != "cosine":
            found = train["similarity"]
            problems.append(
                f"select.beside: encoders stand beside one of the cosine only (train.similarity is {found})"
            )
        if "querybank" in values.get("retrieval", {}).get("protocols", ()):
            if train["similarity"] != "cosine":
                found = train["similarity"]
                problems.append(f"retrieval.protocols: querybank needs the cosine (train.similarity is {found})")
            elif members > 1 and not values["select"]["renormalise"] and not values["select"]["beside"]:
                problems.append("retrieval.protocols: querybank with select.members > 1 needs select.renormalise: true")
    if "resize" in values and "features" in values and values["features"]["source"] == "extract":
        side, crop = values["resize"]["side"], values["features"]["crop"]
        if crop > side:
            problems.append(f"features.crop = {crop}: the resized pictures' smaller side is {side} (resize.side)")
    if "ground" in values and "grounded" in values:
        baseline, known = values["grounded"]["baseline"], values["ground"]["scenarios"]
        if baseline not in known:
            near = guess(baseline, known)
            problems.append(f"grounded.baseline = {baseline}: no such scenario{near}; known: {', '.join(known)}")
    return problems


def _read(path: Pathish) -> dict[str, Any]:
    try:
        values = yaml_reader.parse(read_text(path, todo="Write one with `sightword recipe sample`."), path)
    except FileFormatError as error:
        raise ParamsError(error.what, where=error.where, todo=error.todo) from None
    if not isinstance(values, dict):
        raise ParamsError("has no sections", where=path, todo="Try `sightword recipe sample`.")
    return values


def _unknown(key: str, accepted: Sequence[str], kind: str) -> str:
    near = guess(str(key).rpartition(".")[2], accepted)
    return f"{key}: no such {kind}{near}; accepted: {', '.join(accepted)}"


def _missing(wanted: type[BaseModel], values: dict[str, Any], prefix: str) -> list[str]:
    """Return a line for each key that the file lacks, with its published value."""
    problems = []
    for name, field in wanted.model_fields.items():
        if name not in values:
            hint = "" if field.is_required() else f"; its published value is {field.get_default()!r}"
            problems.append(f"{prefix}.{name}: the key is missing{hint}")
        elif (nested := _nested(field.annotation)) and isinstance(values[name], dict):
            problems += _missing(nested, values[name], f"{prefix}.{name}")
    return problems


def _nested(annotation: Any) -> type[BaseModel] | None:
    """Return the settings class in an annotation such as ``Weights`` or ``Weights | None``."""
    options = typing.get_args(annotation) or (annotation,)
    return next((one for one in options if isinstance(one, type) and issubclass(one, BaseModel)), None)


def _explain(wanted: type[Settings], name: str, item: Any) -> str:
    place = [str(part) for part in item["loc"]]
    key = ".".join([name, *place])
    if item["type"] == "extra_forbidden":
        model: type[BaseModel] = wanted
        for part in place[:-1]:
            field = model.model_fields.get(part)
            model = (_nested(field.annotation) if field else None) or model
        return _unknown(key, list(model.model_fields), "key")
    message = str(item["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"{key} = {quote(item['input'])}: {message}" if place else f"{key}: {message}"
