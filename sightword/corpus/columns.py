"""The columns of a table of pictures and captions, by their usual names and types, and the records of its rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from sightword.corpus.records import Caption, Image, check_path, split_name
from sightword.errors import CorpusError
from sightword.io.tables import semicolons
from sightword.machine import is_address
from sightword.messages import and_more, quote, short
from sightword.places.place import Place

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

UNKNOWN = "und"
"""The code of a language that a table leaves open, as in BCP 47."""
_NUMBERED = re.compile(r"(.+?)_?[0-9]+")
_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")
_LIST = re.compile(r"""\[\s*(["']).*\1\s*\]""", re.DOTALL)


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


class Row(NamedTuple):
    """A row of a table: the place for messages, the picture's name, its captions, its split (None: not named), and the
    captions' language (empty: the table has no such column).
    """

    where: str
    name: str
    captions: list[str]
    split: str | None
    language: str = ""


class Records:
    """The pictures and captions of the rows so far; a picture has one row or several."""

    def __init__(self) -> None:
        """Make a list without rows."""
        self.images: dict[tuple[str, str | None], Image] = {}
        self.captions: list[Caption] = []

    def add(self, row: Row, split: str, place: Place | None = None, digest: bytes = b"") -> bool:
        """Add a row; return whether its picture is new.

        Equal captions within a row are records of their own; an equal caption in another row is a repeated record. A
        web address is the name of a picture without a file.

        Args:
            row: the row.
            split: the split of rows that name none.
            place: the place of the picture's bytes, if they are in the table.
            digest: the sha256 of these bytes, if they were read.

        Raises:
            CorpusError: the name is no plain path, the split is unknown, the language is not one code, or the picture
                has other bytes than in an earlier row.
        """
        if row.language and not _CODE.fullmatch(row.language):
            what = f"the language {quote(row.language)} is not one code"
            todo = "Give captions in several languages a row each."
            raise CorpusError(what, where=row.where, expected="a code such as de or pt-BR", todo=todo)
        split_of_row = split if row.split is None else split_name(row.split, row.where)
        key = row.name, split_of_row
        image = self.images.get(key)
        if new := image is None:
            path = None if is_address(row.name) else check_path(row.name, row.where)
            image = Image(row.name, path, split_of_row, row.where, place, digest)
        elif digest and image.digest not in (b"", digest):
            what = f"the picture {quote(row.name)} has other bytes than in an earlier row"
            todo = "Name a column in which each picture has a name of its own, such as corpus.columns: {name: id}."
            raise CorpusError(what, where=row.where, todo=todo)
        elif place and image.place is None:
            image = replace(image, place=place, digest=digest)
        self.images[key] = image
        texts = [text for cell in row.captions for text in _texts(cell, row.where)]
        for number, text in enumerate(texts):
            before = texts[:number].count(text)
            key_of_caption = f"{text}#{before}" if before else text
            self.captions.append(Caption(row.name, key_of_caption, text, row.where, row.language.lower()))
        return new


def _texts(cell: str, where: str) -> list[str]:
    """Return the captions of a cell: itself, or the texts of a list in JSON."""
    if not cell.startswith("[") or not _LIST.fullmatch(cell):
        return [cell]
    try:
        texts = json.loads(cell)
    except ValueError:
        texts = []
    if texts and all(isinstance(text, str) for text in texts):
        return [text.strip() for text in texts]
    todo = "Write a row for each caption, for instance by `DataFrame.explode` of pandas."
    raise CorpusError(f"the caption is a list: {quote(cell)}", where=where, expected="a text", todo=todo)
