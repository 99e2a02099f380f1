"""Writes parameter files: every key with its value, and a comment with its meaning."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic.fields import FieldInfo

from pipeline.lineage.repository import git
from pipeline.params import params_file
from pipeline.params.overlay import pipeline_of, resolve
from pipeline.params.recipes import Recipe, list_recipes
from sightword.corpus.columns import NAMES
from sightword.corpus.looking import look
from sightword.errors import CorpusError, FileFormatError, LineageError, ParamsError, SightwordError
from sightword.io import yaml_reader
from sightword.io.files import atomic_file, write_text
from sightword.settings import Settings

WIDTH = 120
WRITTEN = "# Written by `sightword params --recipe"
COLUMN = 30
"""Where comments beside a value begin."""
_SENTENCE = re.compile(r"(?<!\bal\.)(?<=\.)\s+(?=[A-Z])")


def text(recipe: Recipe, project: Path) -> str:
    """Return the whole parameter file of a recipe, with the first sentence of the meaning of each key.

    Errors are those of :func:`~pipeline.params.overlay.resolve`.
    """
    whole = resolve(recipe, project)
    lines = list(whole.header)
    if not any(line.startswith(WRITTEN) for line in lines):
        lines += ["#"] if lines else []
        lines += [f"{WRITTEN} {recipe.name}`; `sightword params --explain KEY` tells more of a key."]
    for name in whole.pipeline.stages:
        settings = params_file.settings_class(whole.pipeline, name)
        kind = settings.of(whole.values[name])
        lines += ["", *_entry(name, whole.values[name], kind, _first_sentence(settings.meanings()[""]))]
    return "\n".join(lines).lstrip("\n") + "\n"


def write(recipe: Recipe, path: Path, project: Path, *, force: bool = False) -> bool:
    """Write a parameter file whole from a recipe, with comments.

    A file that a recipe writes, or that git's last commit has, is replaced. Another file has edits and is kept without
    ``force``. Returns whether the file changed.

    Raises:
        ParamsError: the recipe is wrong, or the file has edits; then nothing is written.
    """
    new = text(recipe, project).encode()
    if path.exists():
        if path.read_bytes() == new:
            return False
        if not force:
            _refuse_to_lose(path, project)
    with atomic_file(path) as temporary:
        temporary.write_bytes(new)
    return True


def of_corpus(
    base: Recipe, source: Path, project: Path, to: Path, columns: Sequence[str] = ()
) -> tuple[Recipe, list[str]]:
    """Write a recipe for the corpus in a folder or file, and return the recipe with what was found, in sentences.

    ``base`` has all other parameters, ``columns`` are those of tables without a usual name, each as ``ROLE=NAME``.

    Raises:
        ParamsError: the corpus lies outside of the project; the base has no name, or no section ``corpus``; or a column
            has no role.
        SightwordError: there is no corpus, or it cannot be read.
    """
    if base not in list_recipes(project):
        raise ParamsError("has no name for --from", where=base.path, todo="Move it to recipes/, and give its name.")
    if "corpus" not in pipeline_of(base, project).stages:
        raise ParamsError("its pipeline has no section corpus for --from", where=base.name, todo="Name another recipe.")
    # without following links: DVC may keep data as links to its cache
    inner = os.path.relpath(Path.cwd() / source, Path.cwd() / project)
    if inner == "." or Path(inner).parts[0] == "..":
        expected = "a folder or a file below it, such as data/raw/own"
        raise ParamsError(f"is not in the project {project}", where=source, expected=expected, todo="Move it there.")
    named = {}
    for column in columns:
        role, _, name = column.partition("=")
        if role not in NAMES or not name or role in named:
            expected = f"ROLE=NAME with one of {', '.join(NAMES)} once, such as caption=alt"
            raise ParamsError("names no column", where=f"--column {column}", expected=expected)
        named[role] = name
    with contextlib.chdir(project):
        try:
            looked = look(Path(inner), named)
        except CorpusError as error:
            for key, option in (("corpus.columns", "--column ROLE=NAME"), ("corpus.file", "--from FILE")):
                if key in (error.todo or ""):
                    error.args = (f"{error} Here {option} sets {key}.",)
            raise
    lines = [f"# The corpus in {inner}, with the other parameters of {base.name}", "#"]
    lines += [*(f"# {line}"[:WIDTH] for line in looked.words), "", f"base: {base.name}", "corpus:"]
    lines += [f"  {key}: {spelt(value)}" for key, value in looked.values.items()]
    write_text(to, "\n".join([*lines, ""]))
    recipe = Recipe(f"{base.name} --from {inner}", to, f"the corpus in {inner}")
    try:
        resolve(recipe, project)
    except ParamsError as error:
        what = f"does not go with a corpus of the format {looked.values['format']}: {error.what}"
        raise ParamsError(what, where=base.name, todo="Take another recipe, such as own.") from None
    return recipe, looked.words


def spelt(value: Any) -> str:
    """Return a value on one line, as YAML writes it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float) and math.isfinite(value):
        digits = format(Decimal(repr(value)), "f")  # YAML 1.1 reads 1e-08 as a text
        return digits if "." in digits else f"{digits}.0"
    if isinstance(value, Mapping):
        return "{" + ", ".join(_items(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_items(value)) + "]"
    if not isinstance(value, str):
        return str(value)
    if not value:
        return "''"
    with contextlib.suppress(FileFormatError):
        if yaml_reader.parse(f"[{value}]", "") == [value]:
            return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in quoted)


def _items(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{key}: {spelt(item)}" for key, item in value.items()]
    return [spelt(item) for item in value]


def _entry(name: str, value: Any, settings: type[Settings] | None, meaning: str, indent: str = "") -> Iterator[str]:
    """Yield the lines of a key, with all below it; ``settings`` are those of a mapping, if it has any."""
    is_block = isinstance(value, Mapping) and (settings or any(isinstance(one, Mapping) for one in value.values()))
    first, *others = [f"{indent}{name}:"] if is_block else _lines(f"{indent}{name}:", value, indent)
    if meaning:
        beside = f"{first:{COLUMN - 2}}  # {meaning}"
        if len(beside) > WIDTH:
            yield from _wrapped(meaning, f"{indent}# ", f"{indent}# ")
        else:
            first = beside
    yield first
    yield from others
    if is_block:
        fields = settings.model_fields if settings else dict.fromkeys(value)
        meanings = settings.meanings() if settings else {}
        for key, field in fields.items():
            about = _meaning(field, meanings.get(key, ""), value[key])
            yield from _entry(key, value[key], _settings(field), about, f"{indent}  ")


def _lines(start: str, value: Any, indent: str) -> list[str]:
    """Return a value on the line of its key, or where the line would be too long, below it."""
    if len(f"{start} {spelt(value)}") <= WIDTH or not isinstance(value, list | Mapping):
        return [f"{start} {spelt(value)}"]
    if any(isinstance(item, Mapping) for item in value):
        return [start, *(f"{indent}  - {spelt(item)}" for item in value)]
    sign = "{}" if isinstance(value, Mapping) else "[]"
    inside = ", ".join(item.replace(" ", "\0") for item in _items(value))  # lines end between items
    lines = _wrapped(inside + sign[1], f"{indent}  {sign[0]}", f"{indent}   ")
    return [start, *(line.replace("\0", " ") for line in lines)]


def _wrapped(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )


def _settings(field: FieldInfo | None) -> type[Settings] | None:
    """Return the settings that are the type of a field."""
    kind = field.annotation if field else None
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def _meaning(field: FieldInfo | None, text: str, value: Any) -> str:
    """Return the first sentence of what a field means, and the other values that it may have."""
    if field is None:
        return ""
    sentence = _first_sentence(text)
    choices = typing.get_args(field.annotation) if typing.get_origin(field.annotation) is Literal else ()
    others = [str(one) for one in choices if one != value and not re.search(rf"\b{one}\b", sentence)]
    return f"{sentence}; or {', '.join(others)}" if others else sentence


def _first_sentence(text: str) -> str:
    return _SENTENCE.split(" ".join(text.replace("``", "").split()))[0].rstrip(".")


def _refuse_to_lose(path: Path, project: Path) -> None:
    """Stop when the file has edits that are neither in a recipe nor in git."""
    data, others = path.read_bytes(), list_recipes(project)
    if _is_committed(path) or any(data in (_written(one, project), one.path.read_bytes()) for one in others):
        return
    what = "has edits that neither a recipe nor git has, and would be lost"
    raise ParamsError(what, where=path, todo="Commit the file, or replace it with --force.")


def _written(recipe: Recipe, project: Path) -> bytes:
    """Return what a recipe writes; nothing where it is wrong."""
    with contextlib.suppress(SightwordError):
        return text(recipe, project).encode()
    return b""


def _is_committed(path: Path) -> bool:
    """Return whether git's last commit has the file as it is."""
    try:
        kept = git(path.absolute().parent, "show", f"HEAD:./{path.name}", errors="surrogateescape")
    except LineageError:
        return False
    return kept.encode(errors="surrogateescape") == path.read_bytes()
