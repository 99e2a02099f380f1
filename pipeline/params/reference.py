"""Every parameter with its type, its published value and its meaning, read from the typed settings."""

from __future__ import annotations

import re
import typing
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import pipelines
from pipeline.params.params_file import settings_class
from pipeline.params.writing import spelt
from sightword.errors import FileFormatError, ParamsError, SetupError
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import did_you_mean, flat, plural
from sightword.report.departures import plain
from sightword.settings import Settings, accepted

INTRODUCTION = """\
# Parameters

Every entry of each `params.yaml` with its published value, its choices and its meaning; `sightword params --explain
train.margin` adds the limits of numbers. The file must have all entries; `sightword params --recipe NAME` writes it
whole, and a [recipe](training.md#recipes) has only what differs. `make docs` writes this page from its types."""


class Parameter(NamedTuple):
    """One entry of ``params.yaml``."""

    name: str
    """The full name, such as ``train.margin``."""
    accepted: str
    """The accepted values, in words."""
    default: Any
    """The published value."""
    text: str
    """The meaning, in Markdown."""


class Section(NamedTuple):
    """One section of ``params.yaml``, with the name of its stage and its purpose."""

    name: str
    text: str
    parameters: list[Parameter]


def sections() -> list[Section]:
    """Return the parameters of all pipelines, in the order of the stages."""
    described = []
    for pipeline in pipelines.pipelines(pipelines.project_of(Path.cwd())):
        for stage in pipeline.stages:
            settings, name = settings_class(pipeline, stage), pipeline.full_name(stage)
            kinds = settings.kinds()
            parameters = [
                _with_kinds(one, kinds) if kinds and one.name == f"{name}.format" else one
                for one in _parameters(settings, name)
            ]
            parameters += _of_kinds(settings, name, {one.name for one in parameters})
            described.append(Section(name, _markdown(settings.meanings()[""]), parameters))
    return described


def page() -> str:
    """Return the reference as a page of Markdown: a heading for each pipeline, its sections folded below."""
    parts, file, told = [INTRODUCTION], "", dict[tuple[str, str], str]()
    for section in sections():
        of, _, name = section.name.rpartition(":")
        of = of or pipelines.PARAMS
        if of != file:
            parts.append(f"## {of}")
            file = of
        entries = "\n".join(_entry(one, section.name, told) for one in section.parameters)
        fold = f"<details><summary>{plural(len(section.parameters), 'parameter')}</summary>"
        parts += [f"### {name}", section.text, fold, entries, "</details>"]
    return "\n\n".join(parts) + "\n"


def explain(wanted: str) -> list[Parameter]:
    """Return parameters by full name, last part or section, such as ``train.margin``; ParamsError without any."""
    every = [parameter for section in sections() for parameter in section.parameters]
    chosen = [one for one in every if one.name == wanted or one.name.startswith(f"{wanted}.")]
    chosen = chosen or [
        one for one in every if one.name.endswith((f".{wanted}", f":{wanted}")) or f":{wanted}." in one.name
    ]
    if not chosen:
        todo = did_you_mean(wanted, [one.name for one in every])
        raise ParamsError("no parameter has this name", where=wanted, todo=todo)
    return chosen


def _entry(one: Parameter, section: str, told: dict[tuple[str, str], str]) -> str:
    """Return a line of the page; ``told`` has the first of the parameters with one key and meaning, for later ones."""
    choices = re.findall(r"`[^`]+`", one.accepted)
    unsaid = "" if all(word in one.text for word in choices) else f"{', '.join(choices)}; "
    first = told.setdefault((one.name.rpartition(".")[2], one.text), one.name)
    text = one.text if first == one.name else f"As `{first}`."
    name = one.name.removeprefix(f"{section}.")
    return f"- **`{name}`** {unsaid}`{spelt(one.default)}`. {_plain_stars(text)}"


def present(name: str) -> str:
    """Return a parameter's value in the current project; empty where none is known."""
    try:
        project = pipelines.find_project(Path.cwd())
        for pipeline in pipelines.pipelines(project):
            values = yaml_reader.parse(read_text(pipeline.project / pipeline.params), pipeline.params)
            sections = flat(values) if isinstance(values, Mapping) else {}
            named = {pipeline.full_name(key): value for key, value in sections.items()}
            if name in named:
                return spelt(named[name])
    except (SetupError, FileFormatError):  # the meaning is known without a project, or with a file that is wrong
        pass
    return ""


def _with_kinds(parameter: Parameter, kinds: Mapping[str, type[Settings]]) -> Parameter:
    """Return the parameter that names the kind of a section, with the first line about each kind."""
    firsts = {kind: own.meanings()[""].partition("\n")[0] for kind, own in kinds.items()}
    about = [f"`{kind}`: {_markdown(first)}" for kind, first in firsts.items()]
    return parameter._replace(
        accepted=" or ".join(f"`{kind}`" for kind in kinds), text=" ".join([parameter.text, *about])
    )


def _of_kinds(settings: type[Settings], name: str, known: Collection[str]) -> list[Parameter]:
    """Return the parameters that only some kinds of a section have."""
    kinds: dict[str, dict[str, list[str]]] = {}
    first: dict[str, Parameter] = {}
    for kind, own in settings.kinds().items():
        for one in _parameters(own, name):
            if one.name not in known:
                kinds.setdefault(one.name, {}).setdefault(one.text, []).append(f"`{kind}`")
                first.setdefault(one.name, one)
    return [
        one._replace(text=" ".join(f"Format {', '.join(of)}: {text}" for text, of in kinds[one.name].items()))
        for one in first.values()
    ]


def _parameters(settings: type[Settings], prefix: str) -> Iterator[Parameter]:
    entries: list[type[Settings]] = []
    meanings = settings.meanings()
    for name, field in settings.model_fields.items():
        full = f"{prefix}.{name}"
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, Settings):
            yield from _parameters(nested, full)
            continue
        default = "required" if field.is_required() else plain(field.get_default(call_default_factory=True))
        yield Parameter(full, accepted(field.annotation, field.metadata), default, _markdown(meanings.get(name, "")))
        entry = next(
            (one for one in typing.get_args(nested) if isinstance(one, type) and issubclass(one, Settings)), None
        )
        if entry is not None and entry not in entries:  # the entries of several lists are explained once
            entries.append(entry)
            yield from _parameters(entry, f"{full}[]")


def _markdown(text: str) -> str:
    return " ".join(text.replace("``", "`").split())


def _plain_stars(text: str) -> str:
    """Return a line of Markdown in which the stars outside of code, as in ``*.json``, are no emphasis."""
    parts = text.split("`")
    return "`".join(part if number % 2 else part.replace("*", r"\*") for number, part in enumerate(parts))
