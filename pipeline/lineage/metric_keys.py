"""Entries of a metrics file by their names, in which parts are joined by dots and may have dots themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sightword.errors import LineageError
from sightword.text import did_you_mean, flat


def find(values: Any, key: str, where: object) -> Any:
    """The entry of a name such as ``STS15.surprise.OnWN.pearson``.

    Of several ways to cut the name into keys, the one with the longest first key that leads to an
    entry counts.

    Args:
        values: what the file holds.
        key: the name; empty for all of it.
        where: what to call the file in a message.

    Raises:
        LineageError: there is no such entry; the message has the nearest names.
    """
    found = look_up(values, key)
    if found is None:
        names = flat(values) if isinstance(values, Mapping) else {}
        raise LineageError(f"has no entry {key}", where=where, todo=did_you_mean(key, names))
    return found[0]


def look_up(values: Any, key: str) -> tuple[Any] | None:
    """The entry, in a tuple of one; None where there is none."""
    return _look_up(values, key.split(".") if key else [])


def _look_up(values: Any, parts: Sequence[str]) -> tuple[Any] | None:
    if not parts:
        return (values,)
    if not isinstance(values, Mapping):
        return None
    for count in range(len(parts), 0, -1):
        first = ".".join(parts[:count])
        if first in values and (found := _look_up(values[first], parts[count:])):
            return found
    return None
