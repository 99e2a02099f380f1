"""Entries of a metrics file by their names, in which parts are joined by dots and may have dots themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sightword.errors import LineageError
from sightword.messages import did_you_mean, flat


def find(values: Any, key: str, where: object) -> Any:
    """Return the entry of a name such as ``STS15.surprise.OnWN.pearson``; ``where`` is the file in messages.

    Of several ways to cut the name into keys, the one with the longest first key that leads to an entry counts. An
    empty name stands for all values.

    Raises:
        LineageError: there is no such entry; the message has the nearest names.
    """
    if found := look_up(values, key.split(".") if key else []):
        return found[0]
    names = flat(values) if isinstance(values, Mapping) else {}
    raise LineageError(f"has no entry {key}", where=where, todo=did_you_mean(key, names))


def look_up(values: Any, parts: Sequence[str]) -> tuple[Any] | None:
    """Return the entry of a name in parts, in a tuple of one; None where there is none."""
    if not parts:
        return (values,)
    for count in range(len(parts), 0, -1) if isinstance(values, Mapping) else ():
        first = ".".join(parts[:count])
        if first in values and (found := look_up(values[first], parts[count:])):
            return found
    return None
