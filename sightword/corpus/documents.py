"""Reads published JSON and checks each value on access, so that an error names its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from sightword.errors import CorpusError
from sightword.files import read_json

Value = TypeVar("Value")

_NAMES = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def read_document(path: Path, todo: str) -> dict[str, Any]:
    """Read a JSON file that must hold an object.

    Raises:
        CorpusError: the file does not hold an object.
        FileFormatError: the file is missing, empty or truncated.
    """
    document = read_json(path, todo=todo)
    if not isinstance(document, dict):
        raise CorpusError("is not a JSON object", where=path, todo=todo)
    return document


def member(container: Any, key: str, kind: type[Value], where: str) -> Value:
    """Return the value of ``key`` in a JSON object after checking its type.

    Raises:
        CorpusError: ``container`` is not an object, lacks the key, or has a value of another type.
    """
    if not isinstance(container, dict):
        raise CorpusError(f"{str(container)[:40]!r} is not an object", where=where, expected=f"one with a key {key!r}")
    if key not in container:
        raise CorpusError(f"has no key {key!r} (it has: {', '.join(container) or 'none'})", where=where)
    value = container[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise CorpusError(f"{key} is {str(value)[:40]!r}", where=where, expected=_NAMES[kind])
    return value


def one_file(folder: Path, name: str | None, patterns: tuple[str, ...], todo: str) -> Path:
    """Return the file ``name`` in ``folder``, or the only file there that matches a pattern.

    Raises:
        CorpusError: the folder or file does not exist, or several files match.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise CorpusError(f"{what}: corpus.path is the folder, corpus.file the name in it", where=folder, todo=todo)
    if name is not None:
        if not (folder / name).is_file():
            raise CorpusError(f"has no file {name} (corpus.file)", where=folder, todo=todo)
        return folder / name
    found = sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise CorpusError(
            f"must have one file {' or '.join(patterns)} but has {names}",
            where=folder,
            todo="Name the right one in corpus.file." if found else todo,
        )
    return found[0]
