"""Builds a mapping from the records of a file, and refuses a key that stands twice with two values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from sightword.errors import SightwordError
from sightword.messages import quote

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def mapping(
    records: Iterable[tuple[Key, Value, object]], key: str, value: str, error: type[SightwordError], *, todo: str
) -> dict[Key, Value]:
    """Return the value of each key, in the order of first occurrence.

    A record that repeats key and value says nothing new, and is passed over. Two values are an error, since
    no reader knows which of them is right.

    Args:
        records: key, value, and the place for messages.
        key: what a key is, such as ``the image id``.
        value: what a value is, such as ``file_name``.
        error: the class of the error.
        todo: the remedy.

    Raises:
        SightwordError: of the class ``error``, if two records give one key two values; the message has both places.
    """
    found: dict[Key, Value] = {}
    places: dict[Key, object] = {}
    for name, one, where in records:
        if name not in found:
            found[name], places[name] = one, where
        elif found[name] != one:
            first, second = f"the {value} {quote(found[name])} ({places[name]})", f"the {value} {quote(one)}"
            what = f"{key} {quote(name)} stands twice, with {first} and {second}"
            raise error(what, where=where, todo=todo)
    return found
