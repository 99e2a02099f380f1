"""Which recipe some parameters are of, and in which parameters they differ from the recipe."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.params import overlay, params_file
from pipeline.params.recipes import Recipe, find, list_recipes
from pipeline.pipelines import PARAMS, Pipeline
from sightword.errors import ParamsError
from sightword.messages import flat

TITLE = ".title"
"""The ending of the parameters that only name a page."""


class Recognised(NamedTuple):
    """A recipe, and the parameters that differ from it by their full names in the pipeline."""

    recipe: str
    overrides: dict[str, Any]


def recognise(
    values: Mapping[str, Any],
    pipeline: Pipeline,
    *,
    name: str | None = None,
    without: str | None = None,
    sections: Collection[str] = (),
) -> Recognised:
    """Return the recipe with the fewest parameters that differ; titles do not count.

    A parameter that the values lack, since it is newer than they are, is no override.

    Args:
        values: all parameters, by section.
        pipeline: the pipeline of the parameters.
        name: the name of the recipe that they are to be compared with; None compares with all recipes of the pipeline.
        without: the full name of the seed, which may differ.
        sections: the sections that count; none means all.

    Raises:
        ParamsError: there is no such recipe, or it belongs to another pipeline; or the pipeline has no recipe.
    """
    ours = _chosen(values, without, sections)
    found: list[tuple[int, Recognised]] = []
    for recipe in list_recipes(pipeline.project) if name is None else [find(name, pipeline.project)]:
        if (theirs := _of_pipeline(recipe, pipeline)) is not None:
            theirs = _chosen(theirs, without, sections)
            overrides = {key: ours[key] for key in ours if key not in theirs or theirs[key] != ours[key]}
            found.append((len(overrides) + len(theirs.keys() - ours), Recognised(recipe.name, overrides)))
    if not found:
        what = f"{pipeline.params} has the parameters of another pipeline than the recipe" if name else "has no recipe"
        raise ParamsError(what, where=name or pipeline.dvc_yaml, todo="`sightword recipe --list` shows all recipes.")
    return min(found)[1]


def _of_pipeline(recipe: Recipe, pipeline: Pipeline) -> dict[str, Any] | None:
    """Return the parameters of a recipe; None for one of another pipeline."""
    whole = overlay.resolve(recipe, pipeline.project)
    return whole.values if whole.pipeline.folder == pipeline.folder else None


def _chosen(values: Mapping[str, Any], without: str | None, sections: Collection[str]) -> dict[str, Any]:
    """Return the parameters that count, by full name."""
    counted = {name: value for name, value in values.items() if not sections or name in sections}
    return {key: value for key, value in flat(counted).items() if key != without and not key.endswith(TITLE)}


def overridden(recipe: str, overrides: Mapping[str, Any], project: Path) -> overlay.Whole:
    """Return the checked parameters of a recipe with some others of its file; ParamsError where they do not fit."""
    whole = overlay.resolve(find(recipe, project), project)
    values: dict[str, Any] = whole.values
    for key, value in overrides.items():
        if PARAMS in key:
            continue
        *above, last = key.split(".")
        nested: dict[str, Any] = {last: value}
        for part in reversed(above):
            nested = {part: nested}
        values = overlay.merged(values, nested)
    checked = params_file.check(values, where=f"{recipe} with overrides", pipeline=whole.pipeline)
    return whole._replace(values=values, sections=checked)


def further(overrides: Mapping[str, Any], project: Path) -> list[overlay.Whole]:
    """Return the checked parameters of the further files that overrides name; ParamsError where they do not fit."""
    found = []
    for file in (key for key in overrides if key.endswith(PARAMS)):
        own = {key.removeprefix(f"{file}:"): one for key, one in overrides.items() if key.startswith(f"{file}:")}
        found.append(overridden(str(overrides[file]), own, project))
    return found
