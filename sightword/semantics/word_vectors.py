"""A bag of words from a file of word vectors, the baseline that sentence encoders are held against.

The file is text, one word a line with its numbers, as GloVe, word2vec (text) and fastText
ship it; a first line with two whole numbers, the count and the width, is a header.
"""

from __future__ import annotations

import gzip
import itertools
import logging
import math
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, cast

import numpy as np
from numpy.typing import NDArray

from sightword.errors import SemanticsError
from sightword.files import Pathish

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]

UNKNOWN = "."
"""The word that stands for a sentence of which no word is known, as in SentEval's ``examples/bow.py``."""


class BagOfWords:
    """Encodes a sentence as the mean or the sum of its words' vectors.

    Words are what stands between spaces. Those without a vector are left out; a sentence of
    only such words has the vector of ``.``, and zeros where that has none.

    Args:
        path: the file, or its ``.gz``.
        pooling: mean or sum of the vectors.
        lower_case: look words up in lower case, for files that only have those.
    """

    def __init__(self, path: Pathish, *, pooling: Literal["mean", "sum"] = "mean", lower_case: bool = False) -> None:
        self.path, self.pooling, self.lower_case = Path(path), pooling, lower_case
        self.width = next(iter(_Lines(self.path))).width
        self._rows: dict[str, int] = {}
        self._vectors: Floats = np.empty((0, self.width), np.float32)
        self._sought: set[str] = set()
        self._fixed = False

    @classmethod
    def load(
        cls,
        path: Pathish,
        words: Iterable[str] | None = None,
        *,
        pooling: Literal["mean", "sum"] = "mean",
        lower_case: bool = False,
    ) -> BagOfWords:
        """Open a file of word vectors.

        Args:
            path: the file, or its ``.gz``.
            words: the only words to know. Default: whatever the sentences have, read from the file
                when they are first shown (:meth:`prepare`), so that a large file takes little memory.
            pooling: mean or sum of the vectors.
            lower_case: look words up in lower case, for files that only have those.

        Raises:
            SemanticsError: the file is missing, empty or no text file of word vectors; with ``words``,
                also what :meth:`prepare` raises.
        """
        bag = cls(path, pooling=pooling, lower_case=lower_case)
        if words is not None:
            if isinstance(words, str):
                raise SemanticsError("the words are one text", expected="a list of words")
            bag._read(bag._words(words))
            bag._fixed = True
        return bag

    def prepare(self, sentences: Iterable[str]) -> None:
        """Read the vectors of these sentences' words, those that were not looked for before.

        The file is read once, line by line; only wanted words are kept.

        Raises:
            SemanticsError: a line has more or fewer numbers than the first, what should be a number of a wanted
                word is none, or the file ends early.
        """
        wanted = self._words(word for sentence in sentences for word in sentence.split()) - self._sought
        if wanted and not self._fixed:
            self._read(wanted)

    def __call__(self, sentences: list[str]) -> Floats:
        """Sentences to float32 (N, width); words not yet looked for are read first, as by :meth:`prepare`."""
        self.prepare(sentences)
        found = np.zeros((len(sentences), self.width), np.float32)
        for place, sentence in enumerate(sentences):
            rows = self._known(sentence.split()) or self._known([UNKNOWN])
            if rows:
                total = self._vectors[rows].sum(axis=0, dtype=np.float64)
                found[place] = total / len(rows) if self.pooling == "mean" else total
        return found

    encode = __call__

    def _known(self, words: Iterable[str]) -> list[int]:
        looked_up = (word.lower() if self.lower_case else word for word in words)
        return [self._rows[word] for word in looked_up if word in self._rows]

    def _words(self, words: Iterable[str]) -> set[str]:
        return {word.lower() if self.lower_case else word for word in words}

    def _read(self, words: set[str]) -> None:
        wanted = {word.encode(): word for word in {*words, UNKNOWN} - self._sought}
        # Of a word that comes twice the last line counts, as in SentEval's example.
        found = {wanted[line.word]: line.numbers() for line in _Lines(self.path) if line.word in wanted}
        self._rows.update(zip(found, itertools.count(len(self._vectors))))
        self._vectors = np.concatenate([self._vectors, *(vector[None] for vector in found.values())])
        self._sought |= words | {UNKNOWN}
        known = len(found.keys() & words)
        if words and not known:
            log.warning("%s: none of the %d words; are its words all in lower case?", self.path, len(words))
        else:
            log.info("%s: %d of %d words have a vector", self.path, known, len(words))


class _Line:
    """A word and its numbers, which are only read when they are asked for."""

    def __init__(self, word: bytes, rest: bytes, width: int, where: str) -> None:
        self.word, self.width = word, width
        self._rest, self._where = rest, where

    def numbers(self) -> Floats:
        fields = self._rest.split(b" ")
        numbers = [_number(field) for field in fields]
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is told below
            vector = np.array(numbers, dtype=np.float32)
        wrong = np.flatnonzero(~np.isfinite(vector))
        if len(wrong):
            raise SemanticsError(
                f"the word {_shown(self.word)} has {_shown(fields[wrong[0]])}",
                where=self._where,
                expected="finite numbers",
            )
        return vector


class _Lines:
    """The words of a file, one after another, in constant memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[_Line]:
        width = count = None
        read, blank = 0, 0
        for number, line in enumerate(self._lines(), start=1):
            where = f"{self.path}, line {number}"
            if not line:
                blank = blank or number
                continue
            if blank:
                raise SemanticsError("is empty", where=f"{self.path}, line {blank}")
            fields = line.split(b" ") if width is None else []
            if number == 1 and len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
                count, width = int(fields[0]), int(fields[1])
                continue
            if width is None:
                width = _numbers_at_end(fields)
            yield self._line(line, width, where)
            read += 1
        if not read:
            raise SemanticsError("has no word" if count is not None else "is empty", where=self.path)
        if count is not None and read != count:
            raise SemanticsError(
                f"has {read} words and says {count} in its first line",
                where=self.path,
                todo="It may have been cut off: get it again.",
            )

    def _line(self, line: bytes, width: int, where: str) -> _Line:
        spaces = line.count(b" ")
        if spaces > width:  # a word with spaces in it, as glove.840B has some
            word, *rest = line.rsplit(b" ", width)
            if _numbers_at_end(line.split(b" ")) == width:
                return _Line(word, b" ".join(rest), width, where)
        elif spaces == width and width:
            word, _, rest_of_line = line.partition(b" ")
            return _Line(word, rest_of_line, width, where)
        raise SemanticsError(
            f"has {spaces} numbers after a word",
            where=where,
            expected=f"{width}, as in the first line" if width else "a word and its numbers, separated by spaces",
            todo="Word vectors are read from text files; a binary file must be converted first.",
        )

    def _lines(self) -> Iterator[bytes]:
        try:
            with self._open() as file:
                for line in file:
                    yield line.rstrip(b" \r\n")
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise SemanticsError(f"cannot be read ({reason})", where=self.path) from None

    def _open(self) -> BinaryIO:
        if self.path.suffix == ".gz":
            return cast("BinaryIO", gzip.open(self.path))
        return open(self.path, "rb")


def _numbers_at_end(fields: list[bytes]) -> int:
    """How many of the fields, from the last back to the second, are finite numbers."""
    return sum(1 for _ in itertools.takewhile(lambda field: math.isfinite(_number(field)), reversed(fields[1:])))


def _number(field: bytes) -> float:
    """NaN for what is no number."""
    try:
        return float(field)
    except ValueError:
        return math.nan


def _shown(word: bytes) -> str:
    return repr(word.decode("utf-8", "replace"))
