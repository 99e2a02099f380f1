"""Reads Flickr8k's own text files: ``Flickr8k.token.txt`` and three lists of names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sightword.corpus.records import Caption, Image, check_path, refuse_other_forms
from sightword.errors import CorpusError
from sightword.io.files import check_line_ends, read_text
from sightword.io.names import Names
from sightword.messages import quote

CAPTIONS = "Flickr8k.token.txt"
LISTS = {"train": "Flickr_8k.trainImages.txt", "dev": "Flickr_8k.devImages.txt", "test": "Flickr_8k.testImages.txt"}
_TODO = "Flickr8k_text.zip holds Flickr8k.token.txt and the lists Flickr_8k.{train,dev,test}Images.txt."


def read_flickr8k(folder: Path) -> tuple[list[Image], list[Caption]]:
    """Read the captions (``name.jpg#number<TAB>caption``) and the official lists.

    The name ends at the last ``#``. Flickr8k captions one picture called ``2258277193_586949ec62.jpg.1``, which has no
    file and no split. CorpusError if a file is empty, or a line has another form; FileFormatError if a file is missing
    or not UTF-8.
    """
    numbered: list[tuple[int, Caption]] = []
    for line, where in _lines(folder / CAPTIONS, "captions, in lines name.jpg#0<TAB>caption"):
        head, tab, text = line.partition("\t")
        name, mark, number = head.rpartition("#")
        if not tab or not mark or not number.isascii() or not number.isdigit():
            problem = "has no tab between the picture's name and the caption" if not tab else "has no caption number"
            raise CorpusError(f"the line {quote(line)} {problem}", where=where, expected="name.jpg#0<TAB>caption")
        numbered.append((int(number), Caption(check_path(name, where), number, text, where)))
    captions = [caption for _, caption in sorted(numbered, key=lambda pair: pair[0])]
    images = []
    for split, file in LISTS.items():
        for line, where in _lines(folder / file, "names, one picture's file name a line"):
            name = check_path(line.strip(), where)
            images.append(Image(name, name, split, where))
    listed = Names(image.image_id for image in images)
    names = {name: listed.match(name) for name in dict.fromkeys(caption.image_id for caption in captions)}
    others = [name for name, known in names.items() if known is None]
    matched = {known for known in names.values() if known is not None}
    refuse_other_forms(others, {image.image_id for image in images} - matched, matched, folder / CAPTIONS)
    captions = [replace(caption, image_id=names[caption.image_id] or caption.image_id) for caption in captions]
    return images + [Image(name, name, None) for name in others], captions


def _lines(path: Path, expected: str) -> list[tuple[str, str]]:
    """Return each line that is not blank, without its line end, with its place for messages."""
    # Not splitlines: a caption may hold characters that only Python treats as line ends.
    lines = read_text(path, todo=_TODO).replace("\r\n", "\n").split("\n")
    check_line_ends(lines[0].encode(), path, CorpusError)
    found = [(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise CorpusError("is empty", where=path, expected=expected, todo=_TODO)
    return found
