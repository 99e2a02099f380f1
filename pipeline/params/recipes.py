"""Recipes: whole parameter files with published settings, and writing ``params.yaml`` from one."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import pipelines
from pipeline.lineage.repository import git
from pipeline.params import params_file
from sightword import yaml_reader
from sightword.errors import FileFormatError, LineageError, ParamsError
from sightword.files import atomic_file, read_text
from sightword.text import and_more, flat, guess

SHOWN = 20
"""Hand-edited entries that a message names."""


@dataclass(frozen=True)
class Recipe:
    """One recipe: its name, its file, and the comment in its first line."""

    name: str
    path: Path
    summary: str


@dataclass(frozen=True)
class Written:
    """What :func:`write` did; ``changed`` is false where the file was that recipe already."""

    path: Path
    changed: bool


def list_recipes(project: Path) -> list[Recipe]:
    """The recipes of a project, by name; the grids of sweeps that lie beside them are none."""
    return [_describe(path) for path in sorted((project / "recipes").glob("*.yaml")) if not is_grid(path)]


def is_grid(path: Path) -> bool:
    """Return whether a file is the grid of a sweep (it has ``blocks``), and not a recipe."""
    return re.search(r"^blocks\s*:", read_text(path), re.MULTILINE) is not None


def find(name: str, project: Path) -> Recipe:
    """A recipe by its name, or by the path of a file.

    Args:
        name: a name in ``recipes/``, or a path: whatever has a slash or ends in ``.yaml``.
        project: the folder with ``recipes/``.

    Raises:
        ParamsError: no such recipe; the message has near names.
    """
    if os.sep in name or name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.is_file():
            raise ParamsError("no such recipe file", where=path)
        if is_grid(path):
            raise _no_recipe(path)
        return _describe(path)
    known = {recipe.name: recipe for recipe in list_recipes(project)}
    if name not in known:
        grid = project / "recipes" / f"{name}.yaml"
        if grid.is_file():
            raise _no_recipe(grid)
        raise ParamsError(
            f"no such recipe{guess(name, known)}",
            where=name,
            expected=", ".join(known) or f"a file in {project / 'recipes'}",
        )
    return known[name]


def target(recipe: Recipe, project: Path) -> Path:
    """Return the ``params.yaml`` of the pipeline whose stages are a recipe's sections.

    Raises:
        FileFormatError: the recipe or a ``dvc.yaml`` cannot be read.
    """
    values = yaml_reader.parse(read_text(recipe.path), recipe.path)
    return project / pipelines.of_sections(values if isinstance(values, dict) else (), project).params


def write(recipe: Recipe, path: Path, project: Path, *, force: bool = False) -> Written:
    """Write a parameter file whole from a recipe, with its comments.

    A file that is a recipe unchanged, or that git has as it stands, is replaced:
    nothing is lost. Another one holds somebody's edits and is kept.

    Args:
        recipe: what to write.
        path: the parameter file.
        project: the folder with ``recipes/``.
        force: replace a file with edits too.

    Raises:
        ParamsError: the recipe is wrong (then nothing is written), or the file has
            edits, which the message names.
    """
    params_file.load(recipe.path)
    new = recipe.path.read_bytes()
    if path.exists():
        if path.read_bytes() == new:
            return Written(path, changed=False)
        if not force:
            _refuse_to_lose(path, recipe, project)
    with atomic_file(path) as temporary:
        temporary.write_bytes(new)
    return Written(path, changed=True)


def _no_recipe(grid: Path) -> ParamsError:
    return ParamsError(
        "is the grid of a sweep, not a recipe", where=grid, todo=f"Run it with `sightword sweep {grid}`."
    )


def _describe(path: Path) -> Recipe:
    first = read_text(path).partition("\n")[0].strip()
    return Recipe(path.stem, path, first.lstrip("# ") if first.startswith("#") else "")


def _refuse_to_lose(path: Path, recipe: Recipe, project: Path) -> None:
    """Stop when the file has edits that are neither in a recipe nor in git."""
    others = list_recipes(project)
    data = path.read_bytes()
    if any(other.path.read_bytes() == data for other in others) or _is_committed(path):
        return
    raise ParamsError(
        f"has edits that neither a recipe nor git has, and would be lost:\n  {_edits(path, recipe, others)}",
        where=path,
        todo="\nCommit the file, or replace it with --force.",
    )


def _is_committed(path: Path) -> bool:
    """Whether git's last commit has the file as it stands."""
    try:
        kept = git(path.absolute().parent, "show", f"HEAD:./{path.name}", errors="surrogateescape")
    except LineageError:
        return False
    return kept.encode(errors="surrogateescape") == path.read_bytes()


def _edits(path: Path, recipe: Recipe, others: list[Recipe]) -> str:
    """The entries that differ from the nearest recipe."""
    try:
        mine = _entries(path)
    except (ParamsError, FileFormatError) as error:
        return str(error)
    nearest, theirs = min(
        ((other, _entries(other.path)) for other in [*others, recipe]), key=lambda pair: len(_differing(mine, pair[1]))
    )
    differing = _differing(mine, theirs)
    if not differing:
        return f"comments or layout (the values are those of the recipe {nearest.name})"
    lines = (
        f"{key}: {mine.get(key, 'absent')} (recipe {nearest.name}: {theirs.get(key, 'absent')})" for key in differing
    )
    return and_more(lines, SHOWN, between="\n  ")


def _differing(mine: dict[str, str], theirs: dict[str, str]) -> list[str]:
    return [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]


def _entries(path: Path) -> dict[str, str]:
    values = yaml_reader.parse(read_text(path), path)
    return {key: spelt(value) for key, value in flat(values).items()} if isinstance(values, dict) else {}


def spelt(value: Any) -> str:
    """A value on one line, as YAML writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(spelt(item) for item in value) + "]"
    return str(value)
