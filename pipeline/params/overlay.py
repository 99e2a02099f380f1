"""The whole parameters of a recipe: its keys laid over those of its base, down to the published values.

A recipe may name another one as its ``base``; without a base the published values of the settings are below it.
``pipeline`` names the folder of a further pipeline, for the recipes on this base too. Without the key, the recipe
belongs to the pipeline whose stages are most of its sections.
Mappings are merged by key; a list or a scalar replaces the one below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pipeline import pipelines
from pipeline.params import params_file
from pipeline.params.recipes import Recipe, list_recipes
from sightword.errors import ParamsError
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import guess, quote
from sightword.report.departures import merged, published
from sightword.settings import Settings

BASE, PIPELINE = "base", "pipeline"


class Whole(NamedTuple):
    """All parameters of a recipe, plain and typed, by section, and the comments at its beginning."""

    pipeline: pipelines.Pipeline
    values: dict[str, Any]
    sections: dict[str, Settings]
    header: list[str]


def resolve(recipe: Recipe, project: Path) -> Whole:
    """Return the checked parameters of a recipe.

    Raises:
        ParamsError: the recipe is wrong, or has no such base, or is in its own chain of bases.
        FileFormatError: a file of the chain cannot be read.
    """
    chain, pipeline = _chain(recipe, project)
    own: dict[str, Any] = {}
    for values in reversed(chain.values()):
        own = merged(own, values)
    below = {}
    for name in pipeline.stages:
        settings, set_here = params_file.settings_class(pipeline, name), own.get(name)
        below[name] = published(settings.of(set_here) if isinstance(set_here, dict) else settings)
    values = merged(below, own)
    sections = params_file.check(values, where=recipe.path, pipeline=pipeline)
    lines = read_text(recipe.path).splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return Whole(pipeline, values, sections, lines[:end])


def pipeline_of(recipe: Recipe, project: Path) -> pipelines.Pipeline:
    """Return the pipeline of a recipe, whose values are not checked; errors are those of :func:`resolve`."""
    return _chain(recipe, project)[1]


def _chain(recipe: Recipe, project: Path) -> tuple[dict[Path, dict[str, Any]], pipelines.Pipeline]:
    """Return the values of a recipe's file, of that of its base, and so on, and the pipeline of the recipe."""
    chain: dict[Path, dict[str, Any]] = {}
    stated: pipelines.Pipeline | None = None
    names, one = [recipe.name], recipe
    while True:
        values = yaml_reader.parse(read_text(one.path), one.path)
        if not isinstance(values, dict):
            raise ParamsError("has no sections", where=one.path, todo="See recipes/flickr8k.yaml for a recipe.")
        name, folder = values.pop(BASE, None), values.pop(PIPELINE, None)
        chain[one.path] = values
        if folder is not None:
            stated = stated or named_pipeline(folder, project, f"{one.path}: {PIPELINE}")
        if name is None:
            sections = [name for one in reversed(chain.values()) for name in one]
            return chain, stated or pipelines.of_sections(sections, project)
        where = f"{one.path}: {BASE}"
        known = {other.name: other for other in list_recipes(project)}
        if not isinstance(name, str) or name not in known:
            others = [other for other in known if other != one.name]
            what = f"no such recipe: {quote(name)}{guess(name, others)}"
            raise ParamsError(what, where=where, expected=f"one of {', '.join(others)}")
        one = known[name]
        names.append(name)
        if one.path in chain:
            raise ParamsError(f"is a loop: {' -> '.join(names)}", where=where)


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
