"""Rows of a table of pictures and captions, and the records that they make."""

from __future__ import annotations

import re
from typing import NamedTuple

from sightword.corpus.compact import Captions, Pictures
from sightword.corpus.records import Image, check_path, split_name
from sightword.errors import CorpusError
from sightword.messages import quote
from sightword.places.place import Place

UNKNOWN = "und"
"""The code of a language that a table leaves open, as in BCP 47."""
_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")


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

    def __init__(self, *, placed: bool = False, hashed: bool = False) -> None:
        """Make a list without rows; ``placed`` and ``hashed`` are those of :class:`Pictures`."""
        self.images = Pictures(placed=placed, hashed=hashed, rows_of_table=True)
        self.captions = Captions(self.images)
        self._last: tuple[str, str | None] | None = None

    def add(self, row: Row, split: str, place: Place | None = None, digest: bytes | None = None) -> None:
        """Add a row; ``split`` is that of rows that name none.

        Equal captions within a row are records of their own; an equal caption in another row is a repeated record.

        Raises:
            CorpusError: the name is no plain path, the split is unknown, or the language is not one code.
        """
        if row.language and not _CODE.fullmatch(row.language):
            what = f"the language {quote(row.language)} is not one code"
            todo = "Give captions in several languages a row each."
            raise CorpusError(what, where=row.where, expected="a code such as de or pt-BR", todo=todo)
        own = split if row.split is None else split_name(row.split, row.where)
        if self.images.placed or (row.name, own) != self._last:
            name = check_path(row.name, row.where)
            self.images.add(Image(name, name, own, row.where, place), digest)
            self._last = name, own
        picture = len(self.images) - 1
        for number, text in enumerate(row.captions):
            before = row.captions[:number].count(text)
            key = f"{text}#{before}" if before else text
            self.captions.add(picture, key, text, row.where, row.language.lower())
