"""Reads Flickr8k's own text files: ``Flickr8k.token.txt`` and three lists of names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import field_validator

from sightword.corpus.cleaning import refuse_other_forms
from sightword.corpus.listing import Listing
from sightword.corpus.records import Caption, Image, check_path
from sightword.corpus.settings import CorpusSettings, check_list, read_list
from sightword.errors import CorpusError
from sightword.io.names import Names
from sightword.io.opening import lines
from sightword.io.tables import whole
from sightword.messages import quote

CAPTIONS = "Flickr8k.token.txt"
LISTS = {"train": "Flickr_8k.trainImages.txt", "dev": "Flickr_8k.devImages.txt", "test": "Flickr_8k.testImages.txt"}
_TODO = "Flickr8k_text.zip holds Flickr8k.token.txt and the lists Flickr_8k.{train,dev,test}Images.txt."


class Flickr8k(CorpusSettings):
    """Captions (``name.jpg#number<TAB>caption``) and the official lists.

    Flickr8k captions one picture called ``2258277193_586949ec62.jpg.1``, which has no file
    and no split.
    """

    format: Literal["flickr8k"] = "flickr8k"
    """Flickr8k.token.txt and the three lists of the official split."""
    only: str | None = None
    """A list of names in ``sightword/corpus/lists``, such as flickr8k-part; all other pictures are left out as being in
    no split. null takes all."""

    @field_validator("only")
    @classmethod
    def _is_a_list(cls, only: str | None) -> str | None:
        return check_list(only)

    def files(self) -> list[str]:
        """Return the names of the four files."""
        return [CAPTIONS, *LISTS.values()]

    def read(self, _listing: Listing | None, /) -> tuple[list[Image], list[Caption]]:
        """Read the four files; CorpusError if one is missing, empty or not UTF-8, or a line has another form.

        A picture outside of the list ``only`` is in no split.
        """
        only = self.only and read_list(self.only)
        captions = numbered_captions(self.folder / CAPTIONS)
        images = [
            one if only is None or one.image_id in only else replace(one, split=None) for one in names_of(self.folder)
        ]
        listed = Names(image.image_id for image in images)
        names = {name: listed.match(name) for name in dict.fromkeys(caption.image_id for caption in captions)}
        others = [name for name, known in names.items() if known is None]
        matched = {known for known in names.values() if known is not None}
        refuse_other_forms(others, {image.image_id for image in images} - matched, matched, self.folder / CAPTIONS)
        captions = [replace(caption, image_id=names[caption.image_id] or caption.image_id) for caption in captions]
        return images + [Image(name, name, None) for name in others], captions


def names_of(folder: Path) -> list[Image]:
    """Read the pictures of the three lists in a folder; CorpusError if one is missing, empty or not UTF-8."""
    images = []
    for split, file in LISTS.items():
        for line, where in _lines(folder / file, "names, one picture's file name a line"):
            name = check_path(line.strip(), where)
            images.append(Image(name, name, split, where))
    return images


def numbered_captions(file: Path) -> list[Caption]:
    """Return the captions of lines ``name.jpg#0<TAB>caption``, in the order of their numbers; the name ends at the
    last ``#``.

    Raises:
        CorpusError: the file is missing, empty or not UTF-8, or a line has another form.
    """
    numbered: list[tuple[int, Caption]] = []
    for line, where in _lines(file, "captions, in lines name.jpg#0<TAB>caption"):
        head, tab, text = line.partition("\t")
        name, mark, number = head.rpartition("#")
        if not tab or not mark:
            problem = "no caption number" if tab else "no tab between the picture's name and the caption"
            what, expected = f"the line {quote(line)} has {problem}", "name.jpg#0<TAB>caption"
            raise CorpusError(what, where=where, expected=expected)
        place = whole(number, where, "the caption number", CorpusError)
        numbered.append((place, Caption(check_path(name, where), number, text, where)))
    return [caption for _, caption in sorted(numbered, key=lambda pair: pair[0])]


def _lines(path: Path, expected: str) -> list[tuple[str, str]]:
    """Return each line that is not blank, with its place for messages."""
    every = lines(path, CorpusError, todo=_TODO)
    found = [(line, f"{path}, line {number}") for number, line in every if line.strip()]
    if not found:
        raise CorpusError("is empty", where=path, expected=expected, todo=_TODO)
    return found
