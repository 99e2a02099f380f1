"""Writes parameter files: every key with its value, and a comment from the recipe or from the settings."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic.fields import FieldInfo

from pipeline.lineage.repository import git
from pipeline.params import params_file
from pipeline.params.overlay import Key, Note, resolve
from pipeline.params.recipes import Recipe, list_recipes
from sightword.errors import FileFormatError, LineageError, ParamsError, SightwordError
from sightword.io import yaml_reader
from sightword.io.files import atomic_file
from sightword.settings import Settings

WIDTH = 120
WRITTEN = "# Written by `sightword params --recipe"
COLUMN = 30
"""Where comments beside a value begin."""
_SENTENCE = re.compile(r"(?<!\bal\.)(?<=\.)\s+(?=[A-Z])")


def text(recipe: Recipe, project: Path) -> str:
    """Return the whole parameter file of a recipe.

    A key has the comments of the recipe, or else the first sentence of its meaning.

    Errors are those of :func:`~pipeline.params.overlay.resolve`.
    """
    whole = resolve(recipe, project)
    lines = list(whole.header)
    if not any(line.startswith(WRITTEN) for line in lines):
        lines += ["#"] if lines else []
        lines += [f"{WRITTEN} {recipe.name}`; `sightword params --explain KEY` tells more of a key."]
    for name in whole.pipeline.stages:
        settings = params_file.settings_class(whole.pipeline, name)
        meaning = _first_sentence(inspect.getdoc(settings) or "")
        kind = settings.of(whole.values[name])
        lines += ["", *_entry((name,), whole.values[name], kind, meaning, whole.notes)]
    return "\n".join(lines).lstrip("\n") + "\n"


def write(recipe: Recipe, path: Path, project: Path, *, force: bool = False) -> bool:
    """Write a parameter file whole from a recipe, with comments.

    A file that a recipe writes, or that git's last commit has, is replaced. Another file has edits and is kept.

    Args:
        recipe: the recipe.
        path: the parameter file.
        project: the folder with ``recipes/``.
        force: replace a file with edits too.

    Returns:
        Whether the file changed.

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


def _entry(
    key: Key, value: Any, settings: type[Settings] | None, meaning: str, notes: Mapping[Key, Note]
) -> Iterator[str]:
    """Write the lines of a key, with all below it.

    Args:
        key: the full name.
        value: the value, plain.
        settings: the settings of a mapping, if it has any.
        meaning: the comment of a key without comments of the recipe.
        notes: the comments of the recipe.
    """
    indent = "  " * (len(key) - 1)
    is_block = isinstance(value, Mapping) and (settings or any(isinstance(one, Mapping) for one in value.values()))
    first, *others = [f"{indent}{key[-1]}:"] if is_block else _lines(f"{indent}{key[-1]}:", value, indent)
    above, beside = notes.get(key, Note([], meaning))
    yield from (f"{indent}# {line}".rstrip() for line in above)
    if beside:
        whole = f"{first:{COLUMN - 2}}  # {beside}"
        if len(whole) > WIDTH:
            yield from _wrapped(beside, f"{indent}# ", f"{indent}# ")
        else:
            first = whole
    yield first
    yield from others
    if is_block:
        fields = settings.model_fields if settings else dict.fromkeys(value)
        meanings = settings.meanings() if settings else {}
        for name, field in fields.items():
            item = value[name]
            yield from _entry(
                (*key, name), item, _settings(field), _meaning(field, meanings.get(name, ""), item), notes
            )


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
    what, todo = (
        "has edits that neither a recipe nor git has, and would be lost",
        "Commit the file, or replace it with --force.",
    )
    raise ParamsError(what, where=path, todo=todo)


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
