"""Reads the text files of Flickr8k, and of Multi30k: captions of Flickr30k's pictures in English, German, French and
Czech (Elliott et al. 2016, 2017; Barrault et al. 2018).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from sightword.corpus.listing import Listing, refuse_other_forms
from sightword.corpus.records import Caption, Image, check_path
from sightword.corpus.settings import CorpusSettings, check_list, read_list
from sightword.errors import CorpusError
from sightword.io.names import Names
from sightword.io.opening import lines
from sightword.io.tables import whole
from sightword.messages import plural, quote

CAPTIONS = "Flickr8k.token.txt"
LISTS = {"train": "Flickr_8k.trainImages.txt", "dev": "Flickr_8k.devImages.txt", "test": "Flickr_8k.testImages.txt"}
_TODO = "Flickr8k_text.zip holds Flickr8k.token.txt and the lists Flickr_8k.{train,dev,test}Images.txt."


Language = Literal["en", "de", "fr", "cs"]

_PARTS = {
    1: (("train", "train"), ("dev", "val"), ("test", "test_2016_flickr")),
    2: (("train", "train"), ("dev", "val"), ("test", "test_2016")),
}
_EACH = {1: [""], 2: [f".{number}" for number in range(1, 6)]}
_FETCH = "`sightword fetch multi30k` puts all files in place."


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
        captions, images = numbered_captions(self.folder / CAPTIONS), names_of(self.folder)
        if only is not None:
            images = [image if image.image_id in only else replace(image, split=None) for image in images]
        listed = Names(image.image_id for image in images)
        names = {name: listed.match(name) for name in dict.fromkeys(caption.image_id for caption in captions)}
        others = [name for name, known in names.items() if known is None]
        matched = {known for known in names.values() if known is not None}
        refuse_other_forms(others, {image.image_id for image in images} - matched, matched, self.folder / CAPTIONS)
        captions = [replace(caption, image_id=names[caption.image_id] or caption.image_id) for caption in captions]
        return images + [Image(name, name, None) for name in others], captions


class Multi30k(CorpusSettings):
    """Captions of one or several languages; line n of a file is of the n-th name in the list of its part."""

    format: Literal["multi30k"] = "multi30k"
    """Multi30k's files, in the folders ``task1`` and ``task2``."""

    task: Literal[1, 2] = 2
    """``1``: an English caption of each picture and its translations into German, French and Czech; ``2``: five English
    and five German captions of each picture, written independently of each other."""

    languages: list[Language] = Field(["en"], min_length=1)
    """The captions' languages: en, de, and of task 1 also fr and cs."""

    split: Literal["multi30k", "flickr8k"] = "multi30k"
    """The split of the pictures: ``multi30k``: Multi30k's own; ``flickr8k``: Flickr8k's pictures alone, in the official
    split and with the names of its lists, which are in the folder ``flickr8k``."""

    training_captions: Literal["all", "disjoint"] | Language = "all"
    """The captions of the training pictures: ``all``; ``disjoint``: each picture keeps one language, and the pictures
    take the languages in turn, in the order of their names; or one language for all, such as ``en``. Dev and test keep
    all captions."""

    @model_validator(mode="after")
    def _languages_of_the_task(self) -> Multi30k:
        if len(set(self.languages)) < len(self.languages):
            raise ValueError("a language is named twice")
        if self.task == 2 and (others := [one for one in self.languages if one not in ("en", "de")]):
            raise ValueError(f"task 2 has no captions in {others[0]}; expected en or de")
        if self.training_captions not in ("all", "disjoint", *self.languages):
            raise ValueError(f"training_captions is {self.training_captions}, which languages lacks")
        return self

    def files(self) -> list[str]:
        """Return the lists of names, the files of captions, and the lists of the split; CorpusError without a list."""
        parts = [part for _, part in _PARTS[self.task]]
        texts = [self._texts(part, language, each) for part, language, each in self._each(parts)]
        lists = [self._list(part) for part in parts]
        return [*lists, *texts, *(f"flickr8k/{name}" for name in LISTS.values() if self.split == "flickr8k")]

    def read(self, _listing: Listing | None, /) -> tuple[list[Image], list[Caption]]:
        """Read the files.

        Raises:
            CorpusError: a file is missing or not UTF-8, or has another number of lines than the list of names.
        """
        named: dict[str, Image] = {}
        if self.split == "flickr8k":
            named = {one.image_id.partition("_")[0]: one for one in names_of(self.folder / "flickr8k")}
        images, captions = list(named.values()), []
        for split, part in _PARTS[self.task]:
            listed = self.folder / self._list(part)
            names = [(check_path(name.strip(), where), where) for name, where in _every_line(listed)]
            pictures: list[str | None] = []
            for name, where in names:
                picture = named.get(Path(name).stem)
                if not named:
                    picture = Image(name, name, split, where)
                    images.append(picture)
                pictures.append(picture.image_id if picture else None)
            for _, language, each in self._each([part]):
                file = self.folder / self._texts(part, language, each)
                found = _every_line(file)
                if len(found) != len(names):
                    what = f"has {plural(len(found), 'line')} for the {len(names)} names in {listed.name}"
                    raise CorpusError(what, where=file, expected="one caption a line for each name", todo=_FETCH)
                for picture_id, (text, where) in zip(pictures, found, strict=True):
                    if picture_id is not None:
                        captions.append(Caption(picture_id, f"{language}{each}", text, where, language))
        return images, self._of_training(images, captions)

    def _of_training(self, images: list[Image], captions: list[Caption]) -> list[Caption]:
        """Leave out the captions that training pictures do not have."""
        if self.training_captions == "all":
            return captions
        named = {image.image_id for image in images if image.split == "train"}
        training = sorted({caption.image_id for caption in captions} & named)
        given = self.languages if self.training_captions == "disjoint" else [self.training_captions]
        language = dict(zip(training, cycle(given)))
        return [one for one in captions if language.get(one.image_id, one.language) == one.language]

    def _each(self, parts: list[str]) -> list[tuple[str, Language, str]]:
        return list(product(parts, self.languages, _EACH[self.task]))

    def _texts(self, part: str, language: str, each: str) -> str:
        return f"task{self.task}/{part}{each}.{language}.gz"

    def _list(self, part: str) -> str:
        """Return the list of a part's names: as published, or as in copies of the data set."""
        choices = [
            f"task{self.task}/{part}{end}" for end in (".txt", "_images.txt", "_images.txt.gz", ".images.txt.gz")
        ]
        found = next((name for name in choices if (self.folder / name).is_file()), None)
        if found is None:
            expected = f"the names of its pictures, {choices[self.task - 1]}"
            raise CorpusError(f"has no list of the part {part}", where=self.folder, expected=expected, todo=_FETCH)
        return found


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


def _every_line(file: Path) -> list[tuple[str, str]]:
    """Return each line, blank ones too, with its place for messages."""
    return [(line, f"{file}, line {number}") for number, line in lines(file, CorpusError, todo=_FETCH)]
