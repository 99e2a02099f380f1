"""Entries of a metrics file by their names, in which parts are joined by dots and may have dots themselves."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.lineage.lock import flat
from sightword.errors import LineageError


def find(values: Any, key: str, where: object) -> Any:
    """The entry of a name such as ``STS15.surprise.OnWN.pearson``.

    Of several ways to cut the name into keys, the one with the longest first key that leads to an
    entry counts.

    Args:
        values: what the file holds.
        key: the name; empty for all of it.
        where: what to call the file in a message.

    Raises:
        LineageError: there is no such entry; the nearest names are told.
    """
    found = look_up(values, key)
    if found is None:
        names = [name for name, _ in flat(values)] if isinstance(values, Mapping) else []
        raise LineageError(f"has no entry {key}", where=where, todo=nearest(key, names))
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


def nearest(name: str, names: Iterable[str], *, count: int = 3) -> str | None:
    """A sentence with the names that look most like one; None where none does."""
    known = list(dict.fromkeys(names))
    alike = difflib.get_close_matches(name, known, count, cutoff=0.5)
    # A name's beginning, or its last part, is what people remember.
    alike += [one for one in known if one not in alike and (one.startswith(name) or one.endswith(name))]
    return f"Did you mean {' or '.join(alike[:count])}?" if alike else None
