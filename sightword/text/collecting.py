"""Splits the sentences of a text into tokens, counts them, and keeps them on the disk."""

from __future__ import annotations

import contextlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.captions.normalise import Normalisation
from sightword.captions.units import Unit, split
from sightword.text.reading import BOOK, PASSAGE

CHUNK = 1 << 20
"""Tokens that are held in memory."""


@dataclass(frozen=True)
class Collected:
    """The tokens of a text as numbers in the order of their first occurrence; a file has them as uint32."""

    file: Path
    types: dict[str, int]
    """The number of each different token."""
    counts: NDArray[np.int64]
    """(types,) how often each token occurs."""
    lengths: array[int] = field(default_factory=lambda: array("I"))
    """The tokens of each sentence."""
    passages: array[int] = field(default_factory=lambda: array("q"))
    """The first sentence of each passage."""
    books: array[int] = field(default_factory=lambda: array("q"))
    """The first sentence of each book."""

    def tokens(self) -> Iterator[NDArray[np.uint32]]:
        """Yield the numbers of all tokens, in parts."""
        with open(self.file, "rb") as file:
            while len(part := np.fromfile(file, np.uint32, CHUNK)):
                yield part


def collect(
    sentences: Iterable[tuple[str, int]], file: Path, normalise: Normalisation, unit: Unit, *, progress: bool = False
) -> Collected:
    """Split sentences into tokens, and write the tokens' numbers to a file.

    Args:
        sentences: sentences with what begins with each (:class:`sightword.text.reading.Sentences`).
        file: a new file, for four bytes a token.
        normalise: what is done to a sentence first.
        unit: the kind of token.
        progress: show a progress bar on a terminal.
    """
    types: defaultdict[str, int] = defaultdict()
    types.default_factory = types.__len__
    number_of = types.__getitem__
    lengths, passages, books = array("I"), array("q"), array("q")
    counts = np.zeros(0, np.int64)
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(open(file, "wb"))
        bar = stack.enter_context(tqdm(desc="text", unit="sentence", disable=None if progress else True))
        waiting, since = array("I"), 0

        def flush() -> None:
            nonlocal counts, waiting, since
            found = np.bincount(np.frombuffer(waiting, np.uint32), minlength=len(types)).astype(np.int64)
            found[: len(counts)] += counts
            counts = found
            waiting.tofile(target)
            bar.update(len(lengths) - since)
            waiting, since = array("I"), len(lengths)

        for sentence, begins in sentences:
            if begins >= PASSAGE:
                passages.append(len(lengths))
                if begins == BOOK:
                    books.append(len(lengths))
            tokens = split(normalise(sentence), unit)
            lengths.append(len(tokens))
            waiting.extend(map(number_of, tokens))
            if len(waiting) >= CHUNK:
                flush()
        flush()
    return Collected(file, dict(types), counts, lengths, passages, books)
