"""Reads published JSON and checks each value on access, so that an error names its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from sightword.errors import CorpusError
from sightword.io.files import read_json
from sightword.messages import and_more, quote

Value = TypeVar("Value")

_NAMES = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def read_lists(file: Path, *keys: str, todo: str) -> list[Iterator[tuple[Any, str]]]:
    """Read a JSON file; return for each key the items of its list, each with its place for messages.

    CorpusError if the file has no object with these lists; FileFormatError if it is missing, empty or truncated.
    """
    document = read_json(file, todo=todo)
    if not isinstance(document, dict):
        raise CorpusError("is not a JSON object", where=file, todo=todo)
    return [_placed(member(document, key, list, str(file)), f"{file}, {key}") for key in keys]


def _placed(items: list[Any], where: str) -> Iterator[tuple[Any, str]]:
    for number, item in enumerate(items):
        yield item, f"{where}[{number}]"


def member(container: Any, key: str, kind: type[Value], where: str) -> Value:
    """Return the value of ``key``; CorpusError if ``container`` is not an object with such a value of this type."""
    if not isinstance(container, dict):
        raise CorpusError(f"{quote(container)} is not an object", where=where, expected=f"one with a key {key!r}")
    if key not in container:
        raise CorpusError(f"has no key {key!r} (it has: {and_more(container, 20) or 'none'})", where=where)
    value = container[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise CorpusError(f"{key} is {quote(value)}", where=where, expected=_NAMES[kind])
    return value


def one_file(folder: Path, name: str | None, patterns: tuple[str, ...], todo: str) -> Path:
    """Return the file ``name`` in ``folder``, or the only file there that matches a pattern, or raise CorpusError."""
    if name is not None:
        if not (folder / name).is_file():
            raise CorpusError(f"has no file {name} (corpus.file)", where=folder, todo=todo)
        return folder / name
    found = sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})
    if len(found) != 1:
        names = and_more((file.name for file in found), 5) or "none"
        todo = "Name the right one in corpus.file." if found else todo
        raise CorpusError(f"must have one file {' or '.join(patterns)} but has {names}", where=folder, todo=todo)
    return found[0]
