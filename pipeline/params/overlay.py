"""The whole parameters of a recipe: its keys laid over those of its base, down to the published values.

A recipe may name another one as its ``base``; without a base the published values of the settings are below it.
``pipeline`` names the folder of a further pipeline, for the recipes on this base too. Without the key, the recipe
belongs to the pipeline whose stages are most of its sections.
Mappings are merged by key; a list or a scalar replaces the one below. A comment of a recipe belongs to the key beside
it, or to the key below it, and lasts until another recipe sets the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pipeline import pipelines
from pipeline.params import params_file
from pipeline.params.recipes import Recipe, list_recipes
from sightword.errors import ParamsError
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import guess, quote
from sightword.settings import Settings

BASE, PIPELINE = "base", "pipeline"
DEEPEST = 8
"""The most recipes in a chain of bases."""
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""What ends a line for YAML."""
Key = tuple[str, ...]
"""The full name of a parameter, such as ``("train", "margin")``."""


class Note(NamedTuple):
    """The comments of one key, without their ``#``: the lines above, and the one beside it."""

    above: list[str]
    beside: str


class _Link(NamedTuple):
    """A file of a chain of bases, without the keys ``base`` and ``pipeline`` among its values."""

    path: Path
    text: str
    values: dict[str, Any]


class Whole(NamedTuple):
    """All parameters of a recipe, plain and typed, by section; the comments of its keys, and its first lines."""

    pipeline: pipelines.Pipeline
    values: dict[str, Any]
    sections: dict[str, Settings]
    notes: dict[Key, Note]
    header: list[str]


def resolve(recipe: Recipe, project: Path) -> Whole:
    """Return the checked parameters of a recipe.

    Raises:
        ParamsError: the recipe is wrong, or has no such base, or is in its own chain of bases.
        FileFormatError: a file of the chain cannot be read.
    """
    chain, stated = _chain(recipe, project)
    own: dict[str, Any] = {}
    notes: dict[Key, Note] = {}
    for _, text, values in reversed(chain):
        own = merged(own, values)
        here = notes_of(text)
        notes = {key: note for key, note in notes.items() if not _has(values, key)} | here
    pipeline = _pipeline(chain, stated, project)
    below = {}
    for name in pipeline.stages:
        set_here = own.get(name)
        settings = params_file.settings_class(pipeline, name)
        below[name] = published(settings.of(set_here) if isinstance(set_here, dict) else settings)
    values = merged(below, own)
    sections = params_file.check(values, where=recipe.path, pipeline=pipeline)
    return Whole(pipeline, values, sections, notes, _header(chain[0].text))


def files(recipe: Recipe, project: Path) -> list[Path]:
    """Return the file of a recipe, that of its base, and so on; errors are those of :func:`resolve`."""
    return [one.path for one in _chain(recipe, project)[0]]


def pipeline_of(recipe: Recipe, project: Path) -> pipelines.Pipeline:
    """Return the pipeline of a recipe, whose values are not checked; errors are those of :func:`resolve`."""
    return _pipeline(*_chain(recipe, project), project)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of both, those ``above`` where both have a key; mappings are merged by key."""
    found = dict(below)
    for key, value in above.items():
        under = found.get(key)
        found[key] = merged(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return found


def published(settings: type[Settings]) -> dict[str, Any]:
    """Return the published values of a section; a value that the settings require is absent."""
    found = {}
    for name, field in settings.model_fields.items():
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, Settings):
            found[name] = published(nested)
        if not field.is_required():
            value = plain(field.get_default(call_default_factory=True))
            found[name] = merged(found.get(name, {}), value) if isinstance(value, Mapping) else value
    return found


def plain(value: Any) -> Any:
    """Return a value as YAML has it: of an entry of a list the keys that were set."""
    if isinstance(value, Settings):
        return value.model_dump(exclude_unset=True)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def notes_of(text: str) -> dict[Key, Note]:
    """Return the comments of the keys of a YAML text that have any, without those of the text's first lines."""
    lines = _LINE_END.split(text)
    first, found = len(_header(text)), {}

    def walk(node: yaml.MappingNode, names: Key) -> None:
        for key, value in node.value:
            name = (*names, str(key.value))
            block = isinstance(value, yaml.CollectionNode) and not value.flow_style
            end = key.end_mark if block else value.end_mark
            beside = lines[end.line][end.column :].strip().lstrip(":").strip()
            start = key.start_mark.line
            while start > first and lines[start - 1].lstrip().startswith("#"):
                start -= 1
            above = [line.strip().lstrip("#").strip() for line in lines[start : key.start_mark.line]]
            if beside.startswith("#") or above:
                found[name] = Note(above, beside.lstrip("#").strip() if beside.startswith("#") else "")
            if isinstance(value, yaml.MappingNode) and block:
                walk(value, name)

    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if isinstance(root, yaml.MappingNode):
        walk(root, ())
    return found


def _chain(recipe: Recipe, project: Path) -> tuple[list[_Link], pipelines.Pipeline | None]:
    """Return the files of a recipe, of its base, and so on; and the pipeline that one of them names."""
    chain: list[_Link] = []
    stated: pipelines.Pipeline | None = None
    passed: list[Recipe] = []
    known = {one.name: one for one in list_recipes(project)}
    one = recipe
    while True:
        passed.append(one)
        names = " -> ".join(other.name for other in passed)
        text = read_text(one.path)
        values = yaml_reader.parse(text, one.path)
        if not isinstance(values, dict):
            raise ParamsError("has no sections", where=one.path, todo="See recipes/flickr8k.yaml for a recipe.")
        name, folder = values.pop(BASE, None), values.pop(PIPELINE, None)
        chain.append(_Link(one.path, text, values))
        if folder is not None:
            stated = stated or named_pipeline(folder, project, f"{one.path}: {PIPELINE}")
        if name is None:
            return chain, stated
        where = f"{one.path}: {BASE}"
        if not isinstance(name, str) or name not in known:
            others = [other for other in known if other != one.name]
            what = f"no such recipe: {quote(name)}{guess(name, others)}"
            raise ParamsError(what, where=where, expected=f"one of {', '.join(others)}")
        if known[name] in passed:
            raise ParamsError(f"is a loop: {names} -> {name}", where=where)
        if len(passed) == DEEPEST:
            raise ParamsError(f"is a chain of more than {DEEPEST} recipes: {names}", where=where)
        one = known[name]


def _pipeline(chain: list[_Link], stated: pipelines.Pipeline | None, project: Path) -> pipelines.Pipeline:
    sections = [name for one in reversed(chain) for name in one.values]
    return stated or pipelines.of_sections(sections, project)


def named_pipeline(folder: object, project: Path, where: str) -> pipelines.Pipeline:
    """Return the known further pipeline of a folder's name; ParamsError, which names ``where``, without one."""
    known = {one.folder: one for one in pipelines.known(project) if one.folder}
    if not isinstance(folder, str) or folder not in known:
        what = f"no such pipeline: {quote(folder)}{guess(folder, known)}"
        raise ParamsError(what, where=where, expected=f"one of {', '.join(known)}" if known else None)
    return known[folder]


def check_added(pipeline: pipelines.Pipeline, project: Path) -> None:
    """Check that a project has a pipeline that comes with the code; ParamsError otherwise."""
    if not (project / pipeline.dvc_yaml).is_file():
        todo = f"`sightword init --add {pipeline.folder}` adds it."
        raise ParamsError(f"the project does not have the pipeline {pipeline.folder}", where=project, todo=todo)


def _has(values: Any, key: Key) -> bool:
    """Return whether nested mappings have a key."""
    for part in key:
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


def _header(text: str) -> list[str]:
    """Return the comments at the beginning of a text."""
    lines = _LINE_END.split(text)
    return lines[: next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))]
