"""The way from a published corpus to clean records, and to captions of pictures that are not in the corpus: training
compares these captions with each other.

A group is the captions of one picture; line n of each file of a name is of the same picture.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from sightword.corpus.cleaning import clean
from sightword.corpus.records import Caption, Corpus, Dropped, Image
from sightword.corpus.settings import CorpusSettings, read_list
from sightword.corpus.splits import Drawn, draw, seal
from sightword.errors import CorpusError
from sightword.io.opening import lines
from sightword.messages import plural

_NUMBERED = re.compile(r"(?P<name>.+?)\.\d+(?P<rest>\..+)")
_PICTURE = re.compile(r"\d+(?=[._])")
_WORD = re.compile(r"\w+")
_TODO = (
    "Correct corpus.beside or corpus.beside_files; `sightword params --explain corpus.beside_files` tells the names."
)


def read_corpus(settings: CorpusSettings) -> Corpus:
    """Read a published corpus; :mod:`sightword.corpus.sample` draws the sample.

    Raises:
        CorpusError: the corpus is missing, has another format, or contradicts itself.
        FileFormatError: a file is missing, damaged or of another format.
    """
    path = settings.folder
    if not path.is_dir():
        todo = "Put the corpus there (data/raw/README.md lists the files), or correct corpus.path."
        raise CorpusError("is not a folder" if path.exists() else "does not exist", where=path, todo=todo)
    listing = settings.listing()
    images, captions = (listing and listing.records) or settings.read(listing)
    corpus = clean(images, captions, listing, require_pictures=settings.require_pictures)
    if isinstance(settings, Drawn):
        corpus = draw(corpus, settings, listing)
    return with_beside(seal(corpus, settings.seal), settings, images)


def with_beside(corpus: Corpus, settings: CorpusSettings, named: Iterable[Image]) -> Corpus:
    """Return the corpus with the captions of ``corpus.beside``, without those of its own pictures.

    A caption with the words of a caption of dev, test or the sealed split is left out too, whatever its picture.

    Two pictures are the same if their ids are equal, or begin with the same number: the part of a name of Flickr8k
    before ``_`` is the picture's name in Flickr30k and Multi30k.

    Args:
        corpus: the corpus.
        settings: the section ``corpus``.
        named: all pictures that the corpus names, also those that were dropped.

    Raises:
        CorpusError: no file fits the pattern, files of one name have unequal numbers of lines, or nothing is left.
        FileFormatError: a file is damaged.
    """
    if not settings.beside_files:
        return corpus
    own, without = (
        {_key(image.image_id) for image in named},
        read_list(settings.beside_without) if settings.beside_without else (),
    )
    found: dict[str, list[Caption]] = {}
    for caption in _read(Path(settings.beside), settings.beside_files):
        found.setdefault(caption.image_id, []).append(caption)
    dropped: list[Dropped] = []
    held_out = _held_out(corpus) if found else set()
    for picture in list(found):
        if (known := _key(picture) in own) or picture in without:
            reason = "beside, and in the corpus" if known else f"beside, and in {settings.beside_without}"
            dropped.append(Dropped("picture", picture, reason, plural(len(found.pop(picture)), "caption")))
    for picture in list(found):
        same = [caption for caption in found[picture] if _words(caption.text) in held_out]
        dropped += [Dropped("caption", f"{one.image_id}#{one.key}", "beside, and held out", one.text) for one in same]
        found[picture] = [caption for caption in found[picture] if caption not in same]
        if not found[picture]:
            del found[picture]
    if not found:
        what = f"no caption is left ({plural(len(dropped), 'record')} dropped)"
        raise CorpusError(what, where=settings.beside, todo=_TODO)
    beside = [caption for picture in sorted(found) for caption in found[picture]]
    return replace(corpus, beside=beside, dropped=sorted([*corpus.dropped, *dropped]))


def _held_out(corpus: Corpus) -> set[str]:
    """Return the words of the captions that training must not see."""
    training = {image.image_id for image in corpus.images if image.split == "train"}
    return {_words(caption.text) for caption in corpus.captions if caption.image_id not in training} - {""}


def _words(text: str) -> str:
    """Return the words of a text in folded case, with one space between them."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _key(picture: str) -> str:
    number = _PICTURE.match(picture)
    return number[0] if number else picture


def _read(folder: Path, pattern: str) -> Iterator[Caption]:
    """Yield the captions of all files, with names that are their pictures' or made of file and line."""
    groups: dict[tuple[str, str], list[Path]] = {}
    for path in sorted(folder.glob(pattern)):
        form = _NUMBERED.fullmatch(path.name)
        if form is None:
            raise CorpusError("has no number before its ending", where=path, expected="such as train.1.txt", todo=_TODO)
        groups.setdefault((form["name"], form["rest"].removesuffix(".gz")), []).append(path)
    if not groups:
        raise CorpusError(f"no file fits corpus.beside_files, {pattern}", where=folder, todo=_TODO)
    for (name, rest), paths in groups.items():
        first = paths[0]
        listed = [path for path in (first.with_name(f"{name}_images.txt{end}") for end in ("", ".gz")) if path.exists()]
        texts = {path: [line for _, line in lines(path, CorpusError)] for path in paths + listed[:1]}
        for path, own in texts.items():
            if len(own) != len(texts[first]):
                what = f"has {len(own)} lines, and {first.name} has {len(texts[first])}"
                raise CorpusError(what, where=path, expected="a line for each picture in all files of one name")
        pictures = (
            texts[listed[0]] if listed else [f"{name}{rest}:{number}" for number in range(1, len(texts[first]) + 1)]
        )
        for number, picture in enumerate(pictures):
            for path in paths:
                if text := texts[path][number].strip():
                    yield Caption(picture.strip(), path.name, text, f"{path}, line {number + 1}")
