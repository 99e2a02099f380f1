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


def composed(name: str) -> str:
    """Return a name with its accents as parts of the letters (NFC)."""
    return unicodedata.normalize("NFC", name)


_FORMS: dict[str, Callable[[str], str]] = {
    "separator": lambda name: name.replace("\\", "/"),
    "Unicode form": composed,
    "capitals": str.casefold,
    "blanks": lambda name: re.sub(r"%20|[\s\u200b\ufeff]+", "", name),
    "ending": lambda name: re.sub(r"(?<=[^/])\.[A-Za-z][A-Za-z0-9]{1,4}$", "", name),
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
        same = [known for known in self._bare.get(_plain(name), []) if composed(known) == composed(name)]
        return same[0] if len(same) == 1 else None

    def remark(self, missing: Iterable[str], without: Collection[str] = ()) -> tuple[int, str]:
        """Return how many missing names differ from a known one in form only, and a sentence about the first.

        Names that differ in a form of ``without`` are not counted.
        """
        near = [(name, *self.nearest(name)) for name in missing]
        near = [one for one in near if one[1] and not {*one[2]} & {*without}]
        if not near:
            return 0, ""
        name, nearest, forms = near[0]
        return len(near), f"{quote(name)} is there as {quote(nearest)}, which differs in: {' and '.join(forms)}"

    def nearest(self, name: str) -> tuple[str, list[str]]:
        """Return the known name that differs from a name in the fewest forms, and these forms; empty without one.

        Folders may be missing at the beginning of one of the two names; ``a/1.jpg`` and ``b/1.jpg`` are two names.
        """
        bare = _plain(name)
        alike = self._bare.get(bare) or self._last.get(_last(bare), [])
        alike = [known for known in alike[:_CANDIDATES] if known != name and _within(_plain(known), bare)]
        near = [(_differences(name, known), known) for known in alike]
        forms, nearest = min(near, key=lambda pair: (len(pair[0]), pair[1]), default=([], ""))
        return nearest, forms

    @cached_property
    def _bare(self) -> dict[str, list[str]]:
        return _grouped(self._known, _plain)

    @cached_property
    def _last(self) -> dict[str, list[str]]:
        return _grouped(self._known, lambda name: _last(_plain(name)))


def _grouped(names: Iterable[str], form: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(form(name), []).append(name)
    return groups


def _plain(name: str, forms: Iterable[str] = tuple(_FORMS)) -> str:
    """Return a name without the differences of some forms."""
    return reduce(lambda text, form: _FORMS[form](text), forms, name)


def _last(name: str) -> str:
    return name.rpartition("/")[2]


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
