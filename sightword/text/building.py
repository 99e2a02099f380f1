"""Makes ``data/text``: the sentences and captions as ids of one vocabulary, and their counts."""

from __future__ import annotations

import contextlib
import logging
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.captions.table import CaptionTable, with_ids, write_captions
from sightword.captions.units import Unit, split
from sightword.captions.vocabulary import UNKNOWN, Normalisation, Vocabulary, most_frequent
from sightword.errors import CorpusError
from sightword.settings import SPLITS
from sightword.text.reading import BOOK, PASSAGE, Sentences
from sightword.text.settings import TextSettings
from sightword.text.storage import CAPTIONS, HELD_OUT, TRAINING, Text, write_text

log = logging.getLogger(__name__)

CHUNK = 1 << 20
"""Tokens that are held in memory."""
BLOCK = 1000
"""Sentences of a block that is held out."""
UNIT: Unit = "treebank"
NORMALISE = Normalisation(case="lower")
"""What is done to a sentence before it is split."""


def build_text(
    settings: TextSettings, captions: CaptionTable, folder: Path, *, progress: bool = False
) -> dict[str, Any]:
    """Write the text, its vocabulary and the captions' ids into an existing folder, and return their counts.

    The memory grows by about 10 bytes a sentence, and with the different words.

    Args:
        settings: the text, and how it is read.
        captions: captions of pictures, with or without ids.
        folder: the folder, to be renamed when all is written (:func:`sightword.io.files.atomic_folder`).
        progress: show a progress bar on a terminal.

    Raises:
        CorpusError: the text cannot be read, is empty, or has no three consecutive sentences in one of its parts.
        CaptionsError: a caption is empty after normalisation.
    """
    vocabulary, counts = _write_sentences(settings, captions, folder, progress=progress)
    known = with_ids(captions, vocabulary)
    write_captions(folder / CAPTIONS, known)
    text = Text.open(folder)
    parts = {name: _part(text, number) for name, number in (("training", TRAINING), ("held_out", HELD_OUT))}
    _check(parts, settings)
    return {**counts, **parts, "captions": _captions(known)}


def _write_sentences(
    settings: TextSettings, captions: CaptionTable, folder: Path, *, progress: bool
) -> tuple[Vocabulary, dict[str, Any]]:
    sentences = Sentences(settings)
    collected = collect(sentences, folder / "tokens.tmp", progress=progress)
    if sentences.wrapped:
        log.warning(
            "text: %s looks hard-wrapped: %d of %d lines are as long as a width allows, and each line is read as a "
            "sentence. Join the lines of a paragraph, and write one sentence a line",
            *(sentences.first_wrapped, sentences.wrapped, len(collected.lengths)),
        )
    if not len(collected.counts):
        raise CorpusError("has no sentence", where=settings.path, expected="one sentence a line")
    vocabulary = _vocabulary(settings, collected, captions)
    numbers = _numbers(collected, vocabulary)
    passages = np.frombuffer(collected.passages, np.int64)
    lengths = np.frombuffer(collected.lengths, np.uint32)
    total = len(lengths)
    write_text(
        folder,
        vocabulary,
        (numbers[part] for part in collected.tokens()),
        lengths,
        np.repeat(np.arange(len(passages), dtype=np.int32), np.diff(passages, append=total)),
        _held_out(settings, collected),
        max_tokens=settings.max_tokens,
        settings=settings.model_dump(),
    )
    collected.file.unlink()
    tokens = int(collected.counts.sum())
    return vocabulary, {
        "format": settings.format,
        "files": len(sentences.files),
        "sentences": total,
        "passages": len(passages),
        "books": len(collected.books),
        "tokens": tokens,
        "types": len(collected.types),
        "vocabulary": len(vocabulary.tokens),
        "unknown": _percent(int(collected.counts[numbers == UNKNOWN].sum()), tokens),
        "long": _percent(int((lengths >= settings.max_tokens).sum()), total),
        "lines_with_markup": sentences.marked,
        "lines_wrapped": sentences.wrapped,
    }


def _vocabulary(settings: TextSettings, collected: Collected, captions: CaptionTable) -> Vocabulary:
    counts = Counter(dict(zip(collected.types, collected.counts.tolist(), strict=True)))
    if settings.vocabulary_from == "text_and_captions":
        for caption, part in zip(captions.texts, captions.splits, strict=True):
            if part == "train":
                counts.update(split(NORMALISE(caption), UNIT))
    tokens = most_frequent(counts, settings.min_count, settings.vocabulary)
    if not tokens:
        what = f"no word occurs {settings.min_count} times or more"
        raise CorpusError(what, where=settings.path, todo="Lower text.min_count.")
    return Vocabulary(tokens, NORMALISE, UNIT)


def _numbers(collected: Collected, vocabulary: Vocabulary) -> NDArray[np.uint32]:
    """Return the id of each type, uint32 (types,)."""
    numbers = np.full(len(collected.types), UNKNOWN, np.uint32)
    for number, token in enumerate(vocabulary.tokens, start=UNKNOWN + 1):
        if (place := collected.types.get(token)) is not None:
            numbers[place] = number
    return numbers


def _held_out(settings: TextSettings, collected: Collected) -> NDArray[np.uint8]:
    """Return the split of each sentence, uint8 (S,)."""
    total = len(collected.lengths)
    starts = np.frombuffer(collected.books if settings.held_out_by == "book" else collected.passages, np.int64)
    if settings.held_out_by == "block":
        starts = blocks(starts, total)
    groups = held_out(starts, total, settings.held_out, settings.seed, by=settings.held_out_by)
    size = int(np.diff(starts, append=total)[groups].sum())
    if size > settings.held_out * total:
        log.warning(
            "text: %.1f %% of the sentences are held out, more than text.held_out: the smallest %s has so many%s",
            *(100 * size / total, settings.held_out_by),
            "" if settings.held_out_by == "block" else ". text.held_out_by can be block",
        )
    return np.repeat(groups.astype(np.uint8), np.diff(starts, append=total))


def _part(text: Text, number: int) -> dict[str, int]:
    return {
        "sentences": int((text.split == number).sum()),
        "triples": sum(len(run) for run in text.runs(number, 3)),
        "pairs": sum(len(run) for run in text.runs(number, 2)),
    }


def _check(parts: dict[str, dict[str, int]], settings: TextSettings) -> None:
    limit = f"three consecutive sentences below {settings.max_tokens} tokens in a passage"
    if not parts["training"]["triples"]:
        todo = "Set text.format to bookcorpus if empty lines are no breaks, or raise text.max_tokens."
        raise CorpusError("has no triple for training", where=settings.path, expected=limit, todo=todo)
    if not parts["held_out"]["triples"]:
        todo = "Raise text.held_out, or change text.held_out_by."
        raise CorpusError("has no triple in the held-out part", where=settings.path, expected=limit, todo=todo)


def _captions(table: CaptionTable) -> dict[str, dict[str, float]]:
    """Return the captions of each split, and the percentage of unknown words among their words."""
    by_split = {}
    for name in SPLITS:
        ids = [own for own, part in zip(table.ids, table.splits, strict=True) if part == name]
        every = np.concatenate(ids) if ids else np.empty(0, np.int32)
        by_split[name] = {"captions": len(ids), "unknown": _percent(int((every == UNKNOWN).sum()), len(every))}
    return by_split


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


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


def collect(sentences: Iterable[tuple[str, int]], file: Path, *, progress: bool = False) -> Collected:
    """Split sentences into tokens, and write the tokens' numbers to a file.

    Args:
        sentences: sentences with what begins with each (:class:`sightword.text.reading.Sentences`).
        file: a new file, for four bytes a token.
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
            counted = np.bincount(np.frombuffer(waiting, np.uint32), minlength=len(types)).astype(np.int64)
            counted[: len(counts)] += counts
            counts = counted
            waiting.tofile(target)
            bar.update(len(lengths) - since)
            waiting, since = array("I"), len(lengths)

        for sentence, begins in sentences:
            if begins >= PASSAGE:
                passages.append(len(lengths))
                if begins == BOOK:
                    books.append(len(lengths))
            tokens = split(NORMALISE(sentence), UNIT)
            lengths.append(len(tokens))
            waiting.extend(map(number_of, tokens))
            if len(waiting) >= CHUNK:
                flush()
        flush()
    return Collected(file, dict(types), counts, lengths, passages, books)


def blocks(passages: NDArray[np.int64], sentences: int) -> NDArray[np.int64]:
    """Return the first sentence of each block, int64 (n,): every thousandth sentence of a passage, from its first."""
    sizes = np.diff(passages, append=sentences)
    counts = -(-sizes // BLOCK)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    starts: NDArray[np.int64] = np.repeat(passages, counts) + within * BLOCK
    return starts


def held_out(starts: NDArray[np.int64], sentences: int, share: float, seed: int, *, by: str) -> NDArray[np.bool_]:
    """Return which groups of consecutive sentences are held out, bool (G,).

    The groups are taken in a random order; each one that fits into the share of the sentences is held out, and if none
    fits, the smallest.

    Args:
        starts: (G,) the first sentence of each group, rising from 0.
        sentences: the number of all sentences.
        share: the most that is held out, as a share of the sentences.
        seed: the seed of the order.
        by: the name of a group, for messages.

    Raises:
        CorpusError: there is one group only.
    """
    if len(starts) < 2:
        what = f"the text has one {by} only, which cannot be held out"
        more = {"passage": ", or mark breaks by empty lines", "book": ", or give books.csv"}
        todo = "Take more text." if by == "block" else f"Set text.held_out_by to block{more.get(by, '')}."
        raise CorpusError(what, expected=f"two {by}s or more", todo=todo)
    sizes = np.diff(starts, append=sentences)
    room, least = int(share * sentences), int(sizes.min())
    order = np.random.default_rng(seed).permutation(len(sizes))
    chosen = np.zeros(len(sizes), bool)
    for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        if room < least:
            break
        if size <= room:
            chosen[group] = True
            room -= size
    if not chosen.any():
        chosen[int(sizes.argmin())] = True
    return chosen
