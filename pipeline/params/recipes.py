"""The recipes of a project: their names, their files, and the grids beside them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

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


def _describe(path: Path) -> Recipe:
    first, *others = read_text(path).split("\n", 2)
    found = _NEEDS.fullmatch(others[0].strip()) if others else None
    needs, time = found.groups() if found else ("", "")
    return Recipe(path.stem, path, first.strip().lstrip("# ") if first.startswith("#") else "", needs, time)
