"""Every parameter with its type, its published value and what it means, read from the typed settings themselves."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel

from pipeline import pipelines
from pipeline.params.params_file import settings_class
from sightword.errors import ParamsError
from sightword.text import did_you_mean


@dataclass(frozen=True)
class Parameter:
    """One entry of ``params.yaml``."""

    name: str
    """In full, such as ``train.margin``."""
    accepted: str
    """What it may be, in words."""
    default: Any
    """Its published value."""
    text: str
    """What it means, in Markdown."""


@dataclass(frozen=True)
class Section:
    """One section of ``params.yaml``."""

    name: str
    """That of its stage."""
    text: str
    """What it decides."""
    parameters: list[Parameter]


def sections() -> list[Section]:
    """Return the parameters of all pipelines, in the order of the stages.

    Raises:
        FileFormatError: a ``dvc.yaml`` cannot be read.
    """
    found = []
    for name in pipelines.by_stage(pipelines.project_of(Path.cwd())):
        settings = settings_class(name)
        found.append(Section(name, _markdown(inspect.getdoc(settings) or ""), list(_parameters(settings, name))))
    return found


def page() -> str:
    """The reference as a page of Markdown."""
    lines = [
        "# Parameters",
        "",
        "Every entry of `params.yaml`, section by section: what it may be, its published value, what it means. All",
        "must stand in the file; `sightword recipe NAME` writes it whole. `sightword params --explain train.margin`",
        "prints one of these entries.",
        "This page is made from the typed settings by `make docs`.",
    ]
    for section in sections():
        lines += ["", f"## {section.name}", "", section.text]
        for one in section.parameters:
            lines += [
                "",
                f"### `{one.name}`",
                "",
                f"{one.accepted.capitalize()}; published value `{spelt(one.default)}`.",
                "",
                one.text,
            ]
    return "\n".join(lines) + "\n"


def spelt(value: Any) -> str:
    """A value as it stands in the file."""
    return value if isinstance(value, str) and value else json.dumps(value)


def explain(wanted: str) -> list[Parameter]:
    """One parameter, or all of a section.

    Args:
        wanted: a name such as ``train.margin`` or ``train``, or the last part of one.

    Raises:
        ParamsError: there is none of this name.
    """
    every = [parameter for section in sections() for parameter in section.parameters]
    found = [one for one in every if one.name == wanted or one.name.startswith(f"{wanted}.")]
    found = found or [one for one in every if one.name.endswith(f".{wanted}")]
    if not found:
        raise ParamsError(
            "no parameter has this name", where=wanted, todo=did_you_mean(wanted, [one.name for one in every])
        )
    return found


def _parameters(settings: type[BaseModel], prefix: str) -> Iterator[Parameter]:
    for name, field in settings.model_fields.items():
        full = f"{prefix}.{name}"
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from _parameters(nested, full)
            continue
        accepted = ", ".join([_type(field.annotation), *_limits(field.metadata)])
        yield Parameter(
            full, accepted, field.get_default(call_default_factory=True), _markdown(field.description or "")
        )


def _type(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " or ".join(str(value) for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(one) for one in arguments)
    if origin is not None and arguments:
        inner = ", ".join(dict.fromkeys(_type(one) for one in arguments if one is not Ellipsis))
        return f"list of {inner}" if origin in (list, tuple) else f"{origin.__name__} of {inner}"
    names = {int: "whole number", float: "number", str: "text", bool: "true or false", types.NoneType: "null"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _limits(metadata: list[Any]) -> Iterator[str]:
    for limit in metadata:
        match limit:
            case Ge():
                yield f"at least {limit.ge}"
            case Gt():
                yield f"above {limit.gt}"
            case Le():
                yield f"at most {limit.le}"
            case Lt():
                yield f"below {limit.lt}"
            case MinLen() if limit.min_length == 1:
                yield "not empty"


def _markdown(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
