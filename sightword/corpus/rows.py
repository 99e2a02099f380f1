"""Rows of a table of pictures and captions, and the records that they make."""

from __future__ import annotations

import re
from typing import NamedTuple

from sightword.corpus.records import Caption, Image, check_path, split_name
from sightword.errors import CorpusError
from sightword.messages import quote

UNKNOWN = "und"
"""The code of a language that a table leaves open, as in BCP 47."""
_CODE = re.compile(r"[^\W\d_]+([-_]\w+)*")


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
        self.captions: list[Caption] = []
        self._images: dict[tuple[str, str | None], Image] = {}

    @property
    def images(self) -> list[Image]:
        """The pictures; one with two splits has two records."""
        return [*self._images.values()]

    def add(self, row: Row, split: str) -> None:
        """Add a row; ``split`` is that of rows that name none.

        Equal captions within a row are records of their own; an equal caption in another row is a repeated record.

        Raises:
            CorpusError: the name is no plain path, the split is unknown, or the language is not one code.
        """
        if row.language and not _CODE.fullmatch(row.language):
            what = f"the language {quote(row.language)} is not one code"
            todo = "Give captions in several languages a row each."
            raise CorpusError(what, where=row.where, expected="a code such as de", todo=todo)
        own = split if row.split is None else split_name(row.split, row.where)
        image = self._images.get((row.name, own))
        if image is None:
            name = check_path(row.name, row.where)
            image = self._images[name, own] = Image(name, name, own, row.where)
        for place, text in enumerate(row.captions):
            before = row.captions[:place].count(text)
            key = f"{text}#{before}" if before else text
            self.captions.append(Caption(image.image_id, key, text, row.where, row.language.lower()))
