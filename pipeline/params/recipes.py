"""Recipes: whole parameter files with published settings, and writing ``params.yaml`` from one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import pipelines
from pipeline.lineage.repository import git
from pipeline.params import params_file
from pipeline.pipelines import Pipeline
from sightword.errors import FileFormatError, LineageError, ParamsError
from sightword.io import yaml_reader
from sightword.io.files import atomic_file, read_text
from sightword.messages import and_more, flat, guess

SHOWN = 20
"""Hand-edited entries that a message names."""


class Recipe(NamedTuple):
    """One recipe: its name, its file, and the comment in its first line."""

    name: str
    path: Path
    summary: str


def list_recipes(project: Path) -> list[Recipe]:
    """Return the recipes of a project, by name, without the grids of sweeps in the same folder."""
    return [_describe(path) for path in sorted((project / "recipes").glob("*.yaml")) if not is_grid(path)]


def is_grid(path: Path) -> bool:
    """Return whether a file is the grid of a sweep (it has ``blocks``), and not a recipe."""
    return re.search(r"^blocks\s*:", read_text(path), re.MULTILINE) is not None


def find(name: str, project: Path) -> Recipe:
    """Return a recipe by its name, or by the path of a file.

    Args:
        name: a name in ``recipes/``, or a path, which has a slash or ends in ``.yaml``.
        project: the folder with ``recipes/``.

    Raises:
        ParamsError: no such recipe; the message has near names.
    """
    is_path = os.sep in name or name.endswith((".yaml", ".yml"))
    path = Path(name) if is_path else project / "recipes" / f"{name}.yaml"
    if path.is_file():
        if is_grid(path):
            todo = f"Run it with `sightword sweep {path}`."
            raise ParamsError("is the grid of a sweep, not a recipe", where=path, todo=todo)
        return _describe(path)
    if is_path:
        raise ParamsError("no such recipe file", where=path)
    known = [recipe.name for recipe in list_recipes(project)]
    expected = ", ".join(known) or f"a file in {project / 'recipes'}"
    raise ParamsError(f"no such recipe{guess(name, known)}", where=name, expected=expected)


def target(recipe: Recipe, project: Path) -> Path:
    """Return the ``params.yaml`` of a recipe's pipeline; errors are those of :func:`pipeline_of`."""
    return project / pipeline_of(recipe, project).params


def pipeline_of(recipe: Recipe, project: Path) -> Pipeline:
    """Return the pipeline whose stages are a recipe's sections.

    Raises:
        FileFormatError: the recipe or a ``dvc.yaml`` cannot be read.
    """
    values = yaml_reader.parse(read_text(recipe.path), recipe.path)
    return pipelines.of_sections(values if isinstance(values, dict) else (), project)


def write(recipe: Recipe, path: Path, project: Path, *, force: bool = False) -> bool:
    """Write a parameter file whole from a recipe, with its comments.

    A file that is an unchanged recipe, or that git's last commit has, is replaced. Another file has edits and is kept.

    Args:
        recipe: the recipe.
        path: the parameter file.
        project: the folder with ``recipes/``.
        force: replace a file with edits too.

    Returns:
        Whether the file changed.

    Raises:
        ParamsError: the recipe is wrong, or the file has edits, which the message names; then nothing is written.
    """
    params_file.load(recipe.path)
    new = recipe.path.read_bytes()
    if path.exists():
        if path.read_bytes() == new:
            return False
        if not force:
            _refuse_to_lose(path, recipe, project)
    with atomic_file(path) as temporary:
        temporary.write_bytes(new)
    return True


def _describe(path: Path) -> Recipe:
    first = read_text(path).partition("\n")[0].strip()
    return Recipe(path.stem, path, first.lstrip("# ") if first.startswith("#") else "")


def _refuse_to_lose(path: Path, recipe: Recipe, project: Path) -> None:
    """Stop when the file has edits that are neither in a recipe nor in git."""
    others = list_recipes(project)
    data = path.read_bytes()
    if any(other.path.read_bytes() == data for other in others) or _is_committed(path):
        return
    edits = f"has edits that neither a recipe nor git has, and would be lost:\n  {_edits(path, recipe, others)}"
    raise ParamsError(edits, where=path, todo="\nCommit the file, or replace it with --force.")


def _is_committed(path: Path) -> bool:
    """Return whether git's last commit has the file as it is."""
    try:
        kept = git(path.absolute().parent, "show", f"HEAD:./{path.name}", errors="surrogateescape")
    except LineageError:
        return False
    return kept.encode(errors="surrogateescape") == path.read_bytes()


def _edits(path: Path, recipe: Recipe, others: list[Recipe]) -> str:
    """Return the entries that differ from the nearest recipe, as text."""
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
    """Return a value on one line, as YAML writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(spelt(item) for item in value) + "]"
    return str(value)
