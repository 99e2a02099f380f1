"""Recipes for a corpus of one's own, made by looking at the corpus."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from pipeline.params import overlay
from pipeline.params.recipes import Recipe, list_recipes
from pipeline.params.writing import WIDTH, spelt
from sightword.corpus.looking import look
from sightword.corpus.table import NAMES, Role
from sightword.errors import CorpusError, ParamsError
from sightword.io.files import write_text


def of_corpus(
    base: Recipe, source: Path, project: Path, to: Path, columns: Sequence[str] = ()
) -> tuple[Recipe, list[str]]:
    """Write a recipe for the corpus in a folder or file, and return the recipe with what was found, in sentences.

    Args:
        base: the recipe of all other parameters, one of those with a name.
        source: the folder or file with captions, in the project.
        project: the project's folder.
        to: the file of the new recipe.
        columns: the columns of tables that have no usual name, each as ``ROLE=NAME``, such as ``caption=alt``.

    Raises:
        ParamsError: the corpus lies outside of the project; the base has no name, or no section ``corpus``; or a column
            has no role.
        SightwordError: there is no corpus, or it cannot be read.
    """
    if base not in list_recipes(project):
        raise ParamsError("has no name for --from", where=base.path, todo="Move it to recipes/, and give its name.")
    if "corpus" not in overlay.pipeline_of(base, project).stages:
        raise ParamsError("its pipeline has no section corpus for --from", where=base.name, todo="Name another recipe.")
    # without following links: DVC may keep data as links to its cache
    inner = os.path.relpath(Path.cwd() / source, Path.cwd() / project)
    if inner == "." or Path(inner).parts[0] == "..":
        expected = "a folder or a file below it, such as data/raw/own"
        raise ParamsError(f"is not in the project {project}", where=source, expected=expected, todo="Move it there.")
    pairs = [*map(_column, columns)]
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ParamsError("a role has two columns", where=f"--column {' '.join(columns)}", expected="one for each role")
    with contextlib.chdir(project):
        try:
            found = look(Path(inner), named)
        except CorpusError as error:
            if "corpus.columns" in (error.todo or ""):
                error.args = (f"{error} Here --column ROLE=NAME sets corpus.columns.",)
            raise
    lines = [f"base: {base.name}", "", *(f"# {line}"[:WIDTH] for line in found.words), "corpus:"]
    lines += [f"  {key}: {spelt(value)}" for key, value in found.values.items()]
    write_text(to, "\n".join([f"# The corpus in {inner}, with the other parameters of {base.name}", *lines, ""]))
    return Recipe(f"{base.name} --from {inner}", to, f"the corpus in {inner}"), found.words


def _column(text: str) -> tuple[Role, str]:
    """Return the role and the name of a column."""
    role, _, name = text.partition("=")
    if role not in NAMES or not name:
        expected = f"ROLE=NAME with one of {', '.join(NAMES)}, such as caption=alt"
        raise ParamsError("names no column", where=f"--column {text}", expected=expected)
    return role, name
