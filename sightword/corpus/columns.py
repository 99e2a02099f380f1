"""Finds the columns of a table of pictures and captions by their usual names and their types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from sightword.errors import CorpusError
from sightword.io.tables import semicolons
from sightword.messages import and_more, quote, short

Role = Literal["image", "caption", "split", "language", "name"]

NAMES: dict[Role, tuple[str, ...]] = {
    "image": ("image", "image_name", "image_path", "image_file", "file_name", "filename", "filepath", "file", "path",
              "img", "picture", "photo", "jpg"),
    "caption": ("caption", "captions", "text", "sentence", "sentences", "comment", "description"),
    "split": ("split",),
    "language": ("language", "lang"),
    "name": ("filename", "file_name", "image_name", "image_id", "img_id", "imgid", "cocoid"),
}  # fmt: skip
"""The usual names of each column, the preferred one first: the picture, its captions, its split, the captions'
language, and the name of a picture whose bytes are in the table."""

_NUMBERED = re.compile(r"(.+?)_?[0-9]+")


class Columns(NamedTuple):
    """The columns of a table, by their own names."""

    image: str
    captions: list[str]
    """One column, or several such as ``caption_0`` to ``caption_4``."""
    split: str | None
    language: str | None
    name: str | None


def find(
    header: Sequence[str],
    given: Mapping[Role, str],
    where: object,
    kinds: Mapping[str, str] | None = None,
    pictures: Sequence[str] = (),
) -> Columns:
    """Return the columns of a table.

    Args:
        header: the names of all columns.
        given: the names of columns that have no usual name (``corpus.columns``).
        where: the place, for messages.
        kinds: the type of each column, for messages.
        pictures: the columns whose type shows that they hold pictures.

    Raises:
        CorpusError: there is no column of pictures or of captions, a column stands twice, or a named one is missing.
    """
    if twice := [name for name in dict.fromkeys(header) if name and header.count(name) > 1]:
        what = f"has {short(twice[0])} in {header.count(twice[0])} columns"
        raise CorpusError(what, where=where, expected="one of each", todo="Delete or rename the other columns.")
    has = and_more((f"{short(name, 40)} {short(kinds[name])}" if kinds else name for name in header), 20) or "none"
    if missing := [name for name in given.values() if name not in header]:
        what = f"has no column {quote(missing[0])} (it has: {has})"
        raise CorpusError(what, where=where, todo="Correct corpus.columns.")
    found: dict[Role, list[str]] = {role: _usual(header, role) for role in NAMES}
    if pictures:
        found["image"] = [name for name in found["image"] if name in pictures] or [*pictures]
    found |= {role: [name] for role, name in given.items()}
    captions = found["caption"][:1] or _numbered(header)
    for role, names in (("image", found["image"]), ("caption", captions)):
        if not names:
            taken = {*pictures, *found["image"][:1], *captions}
            others = [short(name, 40) for name in header if name.strip() and name not in taken]
            such = f", or set corpus.columns, such as {{{role}: {others[0]}}}" if others else ""
            todo = semicolons(header) or f"Call the column {role}{such}."
            raise CorpusError(f"has no column {role} (it has: {has})", where=where, todo=todo)
    image = found["image"][0]
    name = next((one for one in found["name"] if one != image), None)
    split, language = (next(iter(found[role]), None) for role in ("split", "language"))
    return Columns(image, captions, split, language, name)


def _usual(header: Sequence[str], role: Role) -> list[str]:
    plain = {name.strip().casefold(): name for name in reversed(header)}
    return [plain[name] for name in NAMES[role] if name in plain]


def _numbered(header: Sequence[str]) -> list[str]:
    """Return the columns such as ``caption_0`` and ``caption_1``, in order."""
    found: dict[str, list[str]] = {}
    for name in header:
        stem = _NUMBERED.fullmatch(name.strip().casefold())
        if stem and stem[1] in NAMES["caption"]:
            found.setdefault(stem[1], []).append(name)
    return next((found[stem] for stem in NAMES["caption"] if stem in found), [])
