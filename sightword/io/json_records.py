"""Reads the objects of JSON and JSON lines, and checks each value on access, so that an error names its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from sightword.errors import SightwordError
from sightword.io.files import parse_json, read_json
from sightword.io.opening import lines
from sightword.messages import and_more, quote

Value = TypeVar("Value")

TYPES = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
"""The name of each type, for messages."""


def read_lists(file: Path, *keys: str, error: type[SightwordError], todo: str) -> list[Iterator[tuple[Any, str]]]:
    """Read a JSON file; return for each key the items of its list, each with its place for messages.

    An error of the class ``error`` if the file has no object with these lists; FileFormatError if it is missing, empty
    or truncated.
    """
    document = read_json(file, todo=todo)
    if not isinstance(document, dict):
        raise error("is not a JSON object", where=file, todo=todo)
    return [_placed(member(document, key, list, str(file), error), f"{file}, {key}") for key in keys]


def _placed(items: list[Any], where: str) -> Iterator[tuple[Any, str]]:
    for number, item in enumerate(items):
        yield item, f"{where}[{number}]"


def json_lines(file: Path, error: type[SightwordError]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place of each line that is not blank, and its object.

    An error of the class ``error`` if the file cannot be read (:func:`sightword.io.opening.lines`), or a line is no
    object, or has two values for a key.
    """
    for number, line in lines(file, error):
        if not line or line.isspace():
            continue
        where = f"{file}, line {number}"
        yield where, parse_object(line, error, where)


def parse_object(text: str, error: type[SightwordError], where: object) -> dict[str, Any]:
    """Return the JSON object of a text; an error of the class ``error`` for another text, or two values for a key."""
    try:
        record = parse_json(text, error, where)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise error(f"is {quote(text)}", where=where, expected="a JSON object")
    return record


def member(container: Any, key: str, kind: type[Value], where: str, error: type[SightwordError]) -> Value:
    """Return the value of ``key``; an error of the class ``error`` if ``container`` is no object with such a value of
    this type, or a text has half a character.
    """
    if not isinstance(container, dict):
        raise error(f"{quote(container)} is not an object", where=where, expected=f"one with a key {key!r}")
    if key not in container:
        raise error(f"has no key {key!r} (it has: {and_more(container, 20) or 'none'})", where=where)
    value: Value = container[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise error(f"{key} is {quote(value)}", where=where, expected=TYPES[kind])
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            todo = "Write the whole character, or delete the half."
            raise error(f"has half a character in {key} (\\ud800 to \\udfff)", where=where, todo=todo) from None
    return value
