"""Names of files that differ in form only: Unicode, separator, capitals, blanks, a folder more, the ending."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from functools import cached_property, reduce

from sightword.messages import quote

_CANDIDATES = 100
"""Names of one form that are compared; a name without its folders may be that of a file in each of many."""

COARSE = ("folder", "ending")
"""The forms in which a copy of a file, such as a smaller one, differs from the file too."""


def _without_blanks(name: str) -> str:
    return re.sub(r"%20|[\s\u200b\ufeff]+", "", name)


def _without_ending(name: str) -> str:
    return re.sub(r"(?<=[^/])\.[A-Za-z][A-Za-z0-9]{1,4}$", "", name)


def composed(name: str) -> str:
    """Return a name with its accents as parts of the letters (NFC)."""
    return unicodedata.normalize("NFC", name)


_FORMS: dict[str, Callable[[str], str]] = {
    "separator": lambda name: name.replace("\\", "/"),
    "Unicode form": composed,
    "capitals": str.casefold,
    "blanks": _without_blanks,
    "ending": _without_ending,
}
"""The differences between two names, each with a function that removes it; a folder more or less comes last."""


class Names:
    """Known names, which are found in another form too."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = frozenset(known)

    def match(self, name: str) -> str | None:
        """Return the known name that is equal, or is the only one with the same characters in another Unicode form:
        macOS writes an accent as a character of its own, most other systems do not.
        """
        if name in self._known:
            return name
        found = self._composed.get(composed(name), [])
        return found[0] if len(found) == 1 else None

    def nearest(self, name: str) -> tuple[str, str] | None:
        """Return the known name that differs from a name in the fewest forms, and these forms; None without one.

        Folders may be missing at the beginning of one of the two names; ``a/1.jpg`` and ``b/1.jpg`` are two names.
        """
        found = self._nearest(name)
        return found and (found[0], " and ".join(found[1]))

    def remark(self, missing: Iterable[str], without: Collection[str] = ()) -> tuple[int, str]:
        """Return how many missing names differ from a known one in form only, and a sentence about the first.

        Names that differ in a form of ``without`` are not counted.
        """
        found = [(name, near) for name in missing if (near := self._nearest(name)) and not {*near[1]} & {*without}]
        if not found:
            return 0, ""
        name, (nearest, forms) = found[0]
        return len(found), f"{quote(name)} is there as {quote(nearest)}, which differs in: {' and '.join(forms)}"

    def _nearest(self, name: str) -> tuple[str, list[str]] | None:
        bare = _plain(name)
        alike = [*self._bare.get(bare, [])[:_CANDIDATES], *self._below.get(bare, [])[:_CANDIDATES]]
        for inner in _inner(bare):
            alike += self._bare.get(inner, [])[:_CANDIDATES]
        found = [(_differences(name, one), one) for one in alike if one != name]
        if not found:
            return None
        forms, nearest = min(found, key=lambda pair: (len(pair[0]), pair[1]))
        return nearest, forms

    @cached_property
    def _composed(self) -> dict[str, list[str]]:
        return _grouped(self._known, composed)

    @cached_property
    def _bare(self) -> dict[str, list[str]]:
        return _grouped(self._known, _plain)

    @cached_property
    def _below(self) -> dict[str, list[str]]:
        """The names below further folders, by each path that is left without some of the first folders."""
        found: dict[str, list[str]] = {}
        for bare, names in self._bare.items():
            for inner in _inner(bare):
                found.setdefault(inner, []).extend(names)
        return found


def _grouped(names: Iterable[str], form: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        found.setdefault(form(name), []).append(name)
    return found


def _plain(name: str, forms: Iterable[str] = tuple(_FORMS)) -> str:
    """Return a name without the differences of some forms."""
    return reduce(lambda text, form: _FORMS[form](text), forms, name)


def _inner(name: str) -> list[str]:
    """Return a path without its first folder, without its first two, and so on."""
    return [name[place + 1 :] for place, character in enumerate(name) if character == "/"]


def _within(one: str, other: str) -> bool:
    return f"/{one}".endswith(f"/{other}") or f"/{other}".endswith(f"/{one}")


def _differences(one: str, other: str) -> list[str]:
    """Return the fewest forms without which two names are equal, the coarsest left out first."""
    needed = list(_FORMS)
    for form in reversed(_FORMS):
        rest = [kept for kept in needed if kept != form]
        if _within(_plain(one, rest), _plain(other, rest)):
            needed = rest
    return needed if _plain(one) == _plain(other) else [*needed, "folder"]
