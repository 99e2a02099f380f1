"""Encodes sentences as bags of words from a file of word vectors, the baseline of sentence encoders.

The file is text, one word a line with its numbers, as published for GloVe, word2vec (text) and fastText; a first line
of two whole numbers, the count and the width, is a header.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightword.encoder.arguments import as_texts
from sightword.errors import SemanticsError
from sightword.io.files import Pathish, mapping
from sightword.io.opening import raw_lines
from sightword.io.saved import as_folder
from sightword.messages import quote

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]

_HEADER = re.compile(rb"[0-9]{1,18} [0-9]{1,18}")

_OTHER_NUMBER = re.compile(rb"[+-]?(0x[0-9a-f.p]+|[0-9]+(_[0-9]+)+|nan|inf(inity)?)", re.IGNORECASE)

UNKNOWN = "."
"""The word that replaces a sentence without known words, as in SentEval's ``examples/bow.py``."""


class BagOfWords:
    """Encodes a sentence as the mean of its words' vectors, from a text file or its ``.gz``.

    Spaces separate words; ``lower_case`` looks them up in lower case. Words without a vector are left out; a sentence
    without known words gets the vector of ``.``, or zeros if ``.`` has no vector. The file is read when sentences are
    encoded, in little memory. SemanticsError if it is missing, empty or not a text file of word vectors.
    """

    def __init__(self, path: Pathish, *, lower_case: bool = False) -> None:
        self.path, self.lower_case = as_folder(path, SemanticsError, "file"), lower_case
        self.width = next(_lines(self.path))[2]
        self._rows: dict[str, int] = {}
        self._vectors: Floats = np.empty((0, self.width), np.float32)
        self._sought: set[str] = set()

    def prepare(self, sentences: Iterable[str]) -> None:
        """Read the vectors of new words of these sentences, in one pass over the file.

        SemanticsError if a line has another count of numbers than the first, a field of a wanted word is not a number,
        a wanted word has two vectors, or the file ends early.
        """
        wanted = {self._form(word) for sentence in as_texts(sentences) for word in sentence.split()} - self._sought
        if wanted:
            self._read(wanted)

    def __call__(self, sentences: str | Iterable[str]) -> Floats:
        """Encode sentences as float32 (N, width); the vectors of new words are read first, as by :meth:`prepare`."""
        texts = as_texts(sentences)
        self.prepare(texts)
        vectors = np.zeros((len(texts), self.width), np.float32)
        for place, sentence in enumerate(texts):
            if rows := self._known(sentence.split()) or self._known([UNKNOWN]):
                vectors[place] = self._vectors[rows].sum(axis=0, dtype=np.float64) / len(rows)
        return vectors

    encode = __call__

    def _form(self, word: str) -> str:
        return word.lower() if self.lower_case else word

    def _known(self, words: Iterable[str]) -> list[int]:
        return [self._rows[word] for word in map(self._form, words) if word in self._rows]

    def _read(self, words: set[str]) -> None:
        wanted = {word.encode(errors="surrogatepass"): word for word in {*words, UNKNOWN} - self._sought}
        lines = (line for line in _lines(self.path) if line[0] in wanted)
        found = _vectors((wanted[word], _numbers(word, fields, where), where) for word, fields, _, where in lines)
        self._rows.update(zip(found, itertools.count(len(self._vectors))))
        self._vectors = np.concatenate([self._vectors, *(vector[None] for vector in found.values())])
        self._sought |= words | {UNKNOWN}
        known = len(found.keys() & words)
        if words and not known:
            log.warning("%s: none of the %d words; are its words all in lower case?", self.path, len(words))
        else:
            log.info("%s: %d of %d words have a vector", self.path, known, len(words))


def _vectors(rows: Iterable[tuple[str, Floats, str]]) -> dict[str, Floats]:
    """Return the vector of each word; SemanticsError if a word has two different ones."""
    texts = ((word, array("f", vector.tobytes()), where) for word, vector, where in rows)
    found = mapping(texts, "the word", "vector", SemanticsError, todo="Delete one of the two lines.")
    return {word: np.frombuffer(vector, np.float32) for word, vector in found.items()}


def _lines(path: Path) -> Iterator[tuple[bytes, bytes, int, str]]:
    """Yield each word, the text of its numbers, their count, and the place for messages, in constant memory."""
    width = count = None
    read, blank = 0, 0
    for number, line in raw_lines(path, SemanticsError):
        where, line = f"{path}, line {number}", line.rstrip(b" ")
        if not line:
            blank = blank or number
            continue
        if blank:
            raise SemanticsError("is empty", where=f"{path}, line {blank}")
        if number == 1 and _HEADER.fullmatch(line):
            count, width = map(int, line.split())
            continue
        if width is None:
            width = _numbers_at_end(line.split(b" "))
        spaces = line.count(b" ")
        # glove.840B has some words with spaces
        if not width or spaces < width or (spaces > width and _numbers_at_end(line.split(b" ")) != width):
            raise SemanticsError(
                f"has {spaces} numbers after a word",
                where=where,
                expected=f"{width}, as in the first line" if width else "a word and its numbers, separated by spaces",
                todo="Word vectors are read from text files; a binary file must be converted first.",
            )
        word = line.partition(b" ")[0] if spaces == width else line.rsplit(b" ", width)[0]
        if spaces > width and _OTHER_NUMBER.fullmatch(last := word.rpartition(b" ")[2]):
            raise SemanticsError(
                f"has {quote(last.decode())} before its numbers", where=where, expected="finite numbers"
            )
        yield word, line[len(word) + 1 :], width, where
        read += 1
    if not read:
        raise SemanticsError("has no word" if count is not None else "is empty", where=path)
    if count is not None and read != count:
        what = f"has {read} words, but its first line states {count}"
        raise SemanticsError(what, where=path, todo="The file may be truncated: download it again.")


def _numbers(word: bytes, text: bytes, where: str) -> Floats:
    fields = text.split(b" ")
    values: Iterable[float] = map(_number, fields)
    if not text.translate(None, b" 0123456789+-.eE"):
        with contextlib.suppress(ValueError):
            values = list(map(float, fields))
    with np.errstate(over="ignore"):  # overflow becomes infinite and is reported below
        vector = np.fromiter(values, np.float32, len(fields))
    wrong = np.flatnonzero(~np.isfinite(vector))
    if len(wrong):
        shown, field = (quote(part.decode("utf-8", "replace")) for part in (word, fields[wrong[0]]))
        raise SemanticsError(f"the word {shown} has {field}", where=where, expected="finite numbers")
    return vector


def _numbers_at_end(fields: list[bytes]) -> int:
    """Return the number of finite numbers at the end of the fields, not counting the first field."""
    return sum(1 for _ in itertools.takewhile(lambda field: math.isfinite(_number(field)), reversed(fields[1:])))


def _number(field: bytes) -> float:
    """Return the number, or NaN for other text, such as ``1_0``."""
    try:
        return math.nan if field.translate(None, b"0123456789+-.eE") else float(field)
    except ValueError:
        return math.nan
