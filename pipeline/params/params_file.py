"""``params.yaml``: one section a stage, the whole file checked at once.

The sections are imported by name, not by ``import``: a stage's result depends on
its own section only, so the settings of the others are no dependency of it.
"""

from __future__ import annotations

import difflib
import importlib
import types
import typing
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sightword import yaml_reader
from sightword.errors import FileFormatError, ParamsError
from sightword.files import Pathish, read_text
from sightword.settings import Settings
from sightword.yaml_reader import shown

SECTIONS = {
    "corpus": "sightword.corpus.settings:CorpusSettings",
    "resize": "sightword.images.settings:ResizeSettings",
    "features": "sightword.features.settings:FeaturesSettings",
    "captions": "sightword.captions.settings:CaptionsSettings",
    "train": "sightword.training.settings:TrainSettings",
    "select": "sightword.selection.settings:SelectSettings",
    "retrieval": "sightword.retrieval.settings:RetrievalSettings",
    "semantics": "sightword.semantics.settings:SemanticsSettings",
    "epochs": "sightword.selection.epochs_settings:EpochsSettings",
    "report": "sightword.report.settings:ReportSettings",
}
"""Each section of the file and where its typed settings live, in the order of the stages."""

SettingsT = TypeVar("SettingsT", bound=Settings)


def settings_class(section: str) -> type[Settings]:
    """The typed settings of a section named in :data:`SECTIONS`."""
    module, name = SECTIONS[section].split(":")
    found: type[Settings] = getattr(importlib.import_module(module), name)
    return found


def load(path: Pathish = "params.yaml") -> dict[str, Settings]:
    """Read and check a whole parameter file.

    Every key must be there: a default that does not stand in the file could not be
    audited from it.

    Returns:
        The typed sections by name.

    Raises:
        ParamsError: all that is wrong with the file, one line each, with key, value
            and what is accepted.
    """
    return check(_read(path), where=path)


def section(path: Pathish, wanted: type[SettingsT]) -> SettingsT:
    """Check the whole file, return the section with the settings class ``wanted``."""
    for settings in load(path).values():
        if isinstance(settings, wanted):
            return settings
    raise LookupError(f"{wanted.__name__} is no section of {', '.join(SECTIONS)}")


def check(values: dict[str, Any], *, where: object = "params") -> dict[str, Settings]:
    """Check plain values as :func:`load` does; ``where`` is named in the message."""
    problems = [_unknown(key, list(SECTIONS), "section") for key in values if key not in SECTIONS]
    found: dict[str, Settings] = {}
    for name in SECTIONS:
        if name not in values:
            problems.append(f"{name}: the section is missing")
            continue
        if not isinstance(values[name], dict):
            problems.append(f"{name} = {shown(values[name])}: not a section (expected key: value lines below it)")
            continue
        wanted = settings_class(name)
        problems += _missing(wanted, values[name], name)
        try:
            found[name] = wanted.model_validate(values[name])
        except ValidationError as error:
            problems += [_explain(wanted, name, item) for item in error.errors() if item["type"] != "missing"]
    problems += _across({name: settings.model_dump() for name, settings in found.items()})
    if problems:
        count = "1 entry is" if len(problems) == 1 else f"{len(problems)} entries are"
        raise ParamsError(
            f"{count} wrong:\n  " + "\n  ".join(problems),
            where=where,
            todo="\nMend the file, or write it anew from a recipe with `sightword recipe NAME`.",
        )
    return found


def _across(values: dict[str, dict[str, Any]]) -> list[str]:
    """What two sections ask of each other, so that it is told before costly work."""
    problems = []
    if "train" in values and "select" in values:
        train, members = values["train"], values["select"]["members"]
        every = train["snapshots"] == "epoch" and values["select"]["candidates"] == "all"
        kept = train["epochs"] if every else train["epochs"] // train["cycle"]
        if members > kept:
            problems.append(
                f"select.members = {members}: there are {kept} to choose from "
                "(train.epochs, train.cycle, train.snapshots, select.candidates)"
            )
    if "resize" in values and "features" in values and values["features"]["source"] == "extract":
        side, crop = values["resize"]["side"], values["features"]["crop"]
        if crop > side:
            problems.append(f"features.crop = {crop}: the resized pictures' smaller side is {side} (resize.side)")
    return problems


def _read(path: Pathish) -> dict[str, Any]:
    try:
        values = yaml_reader.parse(read_text(path, todo="Write one with `sightword recipe sample`."), path)
    except FileFormatError as error:
        raise ParamsError(error.what, where=error.where, todo=error.todo) from None
    if not isinstance(values, dict):
        raise ParamsError(
            "has no sections", where=path, expected=", ".join(SECTIONS), todo="Try `sightword recipe sample`."
        )
    return values


def _unknown(key: str, accepted: list[str], kind: str) -> str:
    near = difflib.get_close_matches(str(key).rsplit(".", 1)[-1], accepted, n=1)
    guess = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{key}: no such {kind}{guess}; accepted: {', '.join(accepted)}"


def _missing(wanted: type[BaseModel], values: dict[str, Any], prefix: str) -> list[str]:
    """Keys that the file lacks, with the default each would have had."""
    problems = []
    for name, field in wanted.model_fields.items():
        if name not in values:
            hint = "" if field.is_required() else f"; its published value is {field.get_default()!r}"
            problems.append(f"{prefix}.{name}: the key is missing{hint}")
            continue
        nested = _nested(field.annotation)
        if nested is not None and isinstance(values[name], dict):
            problems += _missing(nested, values[name], f"{prefix}.{name}")
    return problems


def _nested(annotation: Any) -> type[BaseModel] | None:
    """The settings class in an annotation such as ``Weights`` or ``Weights | None``."""
    options = (
        typing.get_args(annotation)
        if typing.get_origin(annotation) in (typing.Union, types.UnionType)
        else (annotation,)
    )
    for option in options:
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


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
    if not place:
        return f"{key}: {message}"
    return f"{key} = {shown(item['input'])}: {message}"
