"""The recipes of a project and of the program that it runs: their names, their files, and the grids beside them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from pipeline.pipelines import has_code, shipped
from sightword.errors import ParamsError
from sightword.io.files import read_text
from sightword.messages import guess

_NEEDS = re.compile(r"# Needs: (.+)\. Time: (.+)\.")


class Recipe(NamedTuple):
    """One recipe, and what the comments in its first two lines say."""

    name: str
    path: Path
    summary: str
    needs: str = ""
    """What the user must have: pictures, features, text; ``nothing`` but the sample."""
    time: str = ""
    """The time of all stages on two cores."""


def list_recipes(project: Path) -> list[Recipe]:
    """Return the recipes by name, without the grids beside them; the project's stand before the program's."""
    return [_describe(path) for path in _files(project).values() if not is_grid(path)]


def _files(project: Path) -> dict[str, Path]:
    """Return the recipes and grids by their names, in order."""
    homes = [project] if has_code(project) else [shipped(), project]
    paths = [path for folder in homes for path in (folder / "recipes").glob("*.yaml")]
    return dict(sorted({path.stem: path for path in paths}.items()))


def is_grid(path: Path) -> bool:
    """Return whether a file is the grid of a sweep (it has ``blocks``), and not a recipe."""
    return re.search(r"^blocks\s*:", read_text(path), re.MULTILINE) is not None


def find(name: str, project: Path) -> Recipe:
    """Return a recipe by its name, or by the path of a file, which has a slash or ends in ``.yaml``.

    Raises:
        ParamsError: no such recipe; the message has near names.
    """
    is_path = _is_path(name)
    path = Path(name) if is_path else _files(project).get(name)
    if path is not None and path.is_file():
        if is_grid(path):
            raise ParamsError("is the grid of a sweep, not a recipe", where=path, todo=f"Run `sightword sweep {name}`.")
        return _describe(path)
    if is_path:
        raise ParamsError("no such recipe file", where=name)
    known = [recipe.name for recipe in list_recipes(project)]
    todo = "`sightword params --list` shows all."
    raise ParamsError(f"no such recipe{guess(name, known)}", where=name, todo=todo)


def find_grid(name: str, project: Path) -> Path:
    """Return the file of a grid by its name or path; ParamsError, which has near names, for an unknown name."""
    if _is_path(name):
        return Path(name)
    grids = {stem: path for stem, path in _files(project).items() if is_grid(path)}
    if name not in grids:
        near = guess(name, grids)
        raise ParamsError(f"no such grid{near}", where=name, expected=None if near else ", ".join(grids))
    return grids[name]


def _is_path(name: str) -> bool:
    return os.sep in name or name.endswith((".yaml", ".yml"))


def _describe(path: Path) -> Recipe:
    first, *others = read_text(path).split("\n", 2)
    comment = _NEEDS.fullmatch(others[0].strip()) if others else None
    needs, time = comment.groups() if comment else ("", "")
    return Recipe(path.stem, path, first.strip().lstrip("# ") if first.startswith("#") else "", needs, time)
