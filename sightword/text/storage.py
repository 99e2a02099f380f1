"""``data/text/``: the sentences as ids in ``text.h5``, which is read by memory map, and the vocabulary.

``text.h5`` has ``/tokens`` uint16 or uint32 (T,), ``/offsets`` int64 (S + 1,), ``/passage`` int32 (S,), ``/split``
uint8 (S,), each contiguous, and attributes: schema, sentences, tokens, max_tokens, vocabulary (the sha256 of
``vocabulary.json``), settings (JSON with sorted keys), complete. Its first 512 bytes name the sha256 of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightword.captions.vocabulary import Vocabulary
from sightword.errors import FileFormatError
from sightword.io.files import Pathish, canonical_json, sha256_file
from sightword.io.hdf5 import checked, created
from sightword.io.opening import reading
from sightword.messages import first_line, quote

FILE = "text.h5"
VOCABULARY = "vocabulary.json"
CAPTIONS = "captions.parquet"
TRAINING, HELD_OUT = 0, 1
"""The values of ``split``."""
SCHEMA = 1
HEADERS = 1 << 14
"""The most bytes of the file besides its tables."""
CHUNK = 1 << 20
"""Sentences or tokens that are worked on at a time."""
TODO = "Run `make grounded` (without make: `rm -f grounded/.dvcignore && dvc repro grounded/dvc.yaml`)."

_TYPES = {"offsets": "<i8", "passage": "<i4", "split": "|u1"}
Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Text:
    """Sentences in their order, as ids of words; the arrays are memory maps of ``text.h5``, if a file was opened."""

    vocabulary: Vocabulary
    tokens: NDArray[np.uint16] | NDArray[np.uint32]
    """(T,) ids of all sentences, one sentence after the other."""
    offsets: NDArray[np.int64]
    """(S + 1,) sentence i is ``tokens[offsets[i] : offsets[i + 1]]``."""
    passage: NDArray[np.int32]
    """(S,) the number of each sentence's passage, not falling."""
    split: NDArray[np.uint8]
    """(S,) 0 for training, 1 for held-out sentences."""
    max_tokens: int = 30
    """Sentences of this many tokens or more are in no triple and no pair."""
    sha256: str = ""
    """The sha256 of ``text.h5``'s bytes from 512 on, in hex; empty for arrays in memory."""

    @classmethod
    def open(cls, folder: Pathish) -> Text:
        """Open the folder that the stage text wrote, and check its checksum.

        FileFormatError: the file is missing, not complete, damaged, changed, or of another vocabulary.
        CaptionsError: the vocabulary is missing or not a vocabulary.
        """
        place = Path(folder) / FILE
        sha256 = checked(place, expected="a text.h5 of this Sightword", first=TODO, again=TODO)
        attributes, arrays = _mapped(place)
        if attributes["vocabulary"] != sha256_file(Path(folder) / VOCABULARY):
            raise FileFormatError("belongs to another vocabulary.json", where=place, todo=TODO)
        vocabulary = Vocabulary.load(Path(folder) / VOCABULARY)
        return cls(vocabulary, **arrays, max_tokens=attributes["max_tokens"], sha256=sha256)

    def __len__(self) -> int:
        """Return S, the number of sentences."""
        return len(self.passage)

    def row(self, number: int) -> Ids:
        """Return the ids of one sentence, int64 (n,)."""
        return self.tokens[self.offsets[number] : self.offsets[number + 1]].astype(np.int64)

    def rows(self, numbers: ArrayLike) -> list[Ids]:
        """Return the ids of sentences, one int64 array each, in the given order."""
        places = np.asarray(numbers, np.int64)
        starts, ends = self.offsets[places].tolist(), self.offsets[places + 1].tolist()
        return [self.tokens[start:end].astype(np.int64) for start, end in zip(starts, ends, strict=True)]

    def triples(self, split: int) -> Ids:
        """Return the middle sentences of all triples of a split, int64 (n,) rising.

        A triple has three consecutive sentences of one passage and of this split, each with 1 to ``max_tokens`` - 1
        tokens.
        """
        middles = self._firsts(split, 3)
        middles += 1
        return middles

    def pairs(self, split: int) -> Ids:
        """Return the first sentences of all pairs of a split, int64 (n,) rising; as :meth:`triples` with two."""
        return self._firsts(split, 2)

    def _firsts(self, split: int, length: int) -> Ids:
        """Return all runs in one array; they are counted first, since a list of parts would take twice the memory."""
        every = np.empty(sum(len(run) for run in self.runs(split, length)), np.int64)
        done = 0
        for run in self.runs(split, length):
            every[done : done + len(run)] = run
            done += len(run)
        return every

    def runs(self, split: int, length: int) -> Iterator[Ids]:
        """Yield the first sentences of runs of `length` sentences as in :meth:`triples`, int64, in parts."""
        for start in range(0, len(self), CHUNK):
            end = min(start + CHUNK + length - 1, len(self))
            tokens = np.diff(self.offsets[start : end + 1])
            fits = (tokens > 0) & (tokens < self.max_tokens) & (self.split[start:end] == split)
            passage, firsts = self.passage[start:end], max(end - start - length + 1, 0)
            begins = fits[:firsts].copy()
            for step in range(1, length):
                begins &= fits[step : step + firsts] & (passage[step : step + firsts] == passage[:firsts])
            yield np.flatnonzero(begins) + start


def write_text(
    folder: Pathish,
    vocabulary: Vocabulary,
    tokens: Iterable[NDArray[Any]],
    lengths: Sequence[int] | NDArray[Any],
    passage: NDArray[Any],
    split: NDArray[Any],
    *,
    max_tokens: int = 30,
    settings: dict[str, Any] | None = None,
) -> None:
    """Write ``text.h5`` and ``vocabulary.json`` into an existing folder.

    Args:
        folder: the folder, to be renamed when all is written (:func:`sightword.io.files.atomic_folder`).
        vocabulary: the vocabulary of the ids.
        tokens: T ids of all sentences in parts of any size.
        lengths: (S,) the tokens of each sentence; the sum is T.
        passage: (S,) numbers of passages.
        split: (S,) 0 or 1.
        max_tokens: kept for :meth:`Text.triples`.
        settings: kept as an attribute.

    Raises:
        ValueError: the tokens are not as many as the lengths say.
        OSError: of the file system.
    """
    vocabulary.save(Path(folder) / VOCABULARY)
    sizes = np.asarray(lengths)
    total = int(sizes.sum(dtype=np.int64))
    kind = np.dtype("<u2" if len(vocabulary) <= 1 << 16 else "<u4")
    room = total * kind.itemsize + (len(sizes) + 1) * 8 + len(sizes) * 5 + HEADERS
    with created(Path(folder) / FILE, room) as (file, check):
        target, done = file.create_dataset("tokens", (total,), kind), 0
        for part in tokens:
            target[done : done + len(part)] = part
            done += len(part)
            check()
        if done != total:
            raise ValueError(f"{done} tokens for lengths that add up to {total}")
        offsets, done = file.create_dataset("offsets", (len(sizes) + 1,), _TYPES["offsets"]), 0
        offsets[0] = 0
        for start in range(0, len(sizes), CHUNK):
            part = done + np.cumsum(sizes[start : start + CHUNK], dtype=np.int64)
            offsets[start + 1 : start + 1 + len(part)], done = part, int(part[-1])
            check()
        file.create_dataset("passage", data=passage, dtype=_TYPES["passage"])
        file.create_dataset("split", data=split, dtype=_TYPES["split"])
        file.attrs.update(
            {
                "schema": SCHEMA,
                "sentences": len(sizes),
                "tokens": total,
                "max_tokens": max_tokens,
                "vocabulary": sha256_file(Path(folder) / VOCABULARY),
                "settings": canonical_json(settings or {}),
                "complete": True,
            }
        )


def _mapped(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the attributes and the memory maps of a file whose checksum is right."""
    try:
        with reading(path, todo=TODO), h5py.File(path, "r") as file:
            values = file.attrs.items()
            attributes = {key: value.item() if isinstance(value, np.generic) else value for key, value in values}
            if (attributes["schema"], attributes["complete"]) != (SCHEMA, True):
                what = f"has the schema {quote(attributes['schema'])}, complete: {quote(attributes['complete'])}"
                raise FileFormatError(what, where=path, expected=f"{SCHEMA} and True", todo=TODO)
            attributes["max_tokens"] = int(attributes["max_tokens"])
            if "vocabulary" not in attributes or {*file} != {"tokens", "offsets", "passage", "split"}:
                raise LookupError("an array or an attribute has another name")
            places = {name: (file[name].dtype, file[name].shape, file[name].id.get_offset()) for name in file}
        arrays = {
            name: np.memmap(path, kind, "r", offset, shape).view(np.ndarray) if shape[0] else np.empty(0, kind)
            for name, (kind, shape, offset) in places.items()
        }
    except (RuntimeError, LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:  # another HDF5
        raise FileFormatError(f"is damaged ({first_line(error)})", where=path, todo=TODO) from None
    return attributes, arrays
