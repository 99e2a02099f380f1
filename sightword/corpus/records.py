"""The records that every reader returns, and the corpus that is made of them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sightword.errors import CorpusError
from sightword.messages import quote
from sightword.places.place import Place
from sightword.settings import SEALED, SPLITS

ALL_SPLITS = (*SPLITS, SEALED)
"""The splits of pictures."""

SPLIT_OF = dict.fromkeys(("train", "restval"), "train")
SPLIT_OF |= dict.fromkeys(("dev", "val", "valid", "validation"), "dev") | {"test": "test"}
"""Sightword's names of the publishers' splits."""
_WORD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Image:
    """One picture: its id, its file below the folder of pictures (or None), and its split (or None)."""

    image_id: str
    path: str | None
    split: str | None
    where: str = field(default="", compare=False)
    """The place of the record, for messages."""
    place: Place | None = field(default=None, compare=False)
    """The place of the picture, if the record itself tells it."""
    digest: bytes = field(default=b"", compare=False)
    """The sha256 of the picture's bytes, if they were read."""


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption as published; ``key`` identifies the caption within its picture."""

    image_id: str
    key: str
    text: str
    where: str = field(default="", compare=False)
    """The place of the record, for messages."""
    language: str = ""
    """The code of the caption's language; empty in a corpus of one language."""


@dataclass(frozen=True, slots=True, order=True)
class Dropped:
    """A record that is not in the tables, and the reason."""

    kind: str
    """``picture`` (with all its captions) or ``caption``."""
    item: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Corpus:
    """The content of the tables: pictures sorted by id, captions by picture and then in published order."""

    images: Sequence[Image]
    positions: Sequence[int]
    """Each kept picture's rank in the publisher's order, from 0."""
    captions: Sequence[Caption]
    dropped: list[Dropped] = field(default_factory=list)
    drawn: list[tuple[str, str]] = field(default_factory=list)
    """Of the sample only: (picture id, plain words) of each colour, shape and background in a picture, each once."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """The places of pictures that are no loose files and have no place of their own, by ``path``."""
    drawing: str = ""
    """How splits were drawn (:mod:`sightword.corpus.splits`), in words; empty where the corpus names its splits."""

    beside: list[Caption] = field(default_factory=list)
    """Captions of pictures that are not in the corpus (:func:`sightword.corpus.reading.with_beside`), by picture."""

    def counts(self) -> dict[str, int]:
        """Return the number of pictures in each split, and in the sealed one if there are any."""
        counts = Counter(image.split for image in self.images)
        return {split: counts[split] for split in ALL_SPLITS if counts[split] or split != SEALED}

    def with_splits(self, splits: Mapping[str, str]) -> Corpus:
        """Return the corpus with other splits of some pictures, by id."""
        images = [
            replace(image, split=splits[image.image_id]) if image.image_id in splits else image for image in self.images
        ]
        return replace(self, images=images)

    def place(self, image: Image) -> Place | None:
        """Return the place of a picture that is no loose file."""
        return image.place or self.places.get(image.path or "")


def split_name(name: str | None, where: str) -> str | None:
    """Return Sightword's name of a publisher's split; None for an empty name, CorpusError for an unknown one."""
    key = (name or "").strip().lower()
    if key and key not in SPLIT_OF:
        todo = "Rename the split, or leave it empty to leave the picture out."
        expected = f"one of {', '.join(SPLIT_OF)}"
        raise CorpusError(f"unknown split {quote(name)}", where=where, expected=expected, todo=todo)
    return SPLIT_OF.get(key)


def split_of(path: str) -> str | None:
    """Return the split that the last telling part of a path names, such as ``data/train-00000-of-00005.parquet`` or
    ``val/0.parquet``; None if no part names a split, or the part names two.
    """
    for part in reversed(Path(path).parts):
        if splits := {SPLIT_OF[word] for word in map(str.lower, _WORD.findall(part)) if word in SPLIT_OF}:
            return splits.pop() if len(splits) == 1 else None
    return None


def check_path(path: str, where: str) -> str:
    """Return ``path`` if it is a plain relative path, so that each file has one spelling; else raise CorpusError."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        expected = "a path relative to the folder, without `..`"
        raise CorpusError(f"the path {quote(path)} leaves the folder of pictures", where=where, expected=expected)
    if (
        not path.strip()
        or "" in parts
        or "." in parts
        or (not path.isprintable() and any(unicodedata.category(c) == "Cc" for c in path))
    ):
        expected = "a relative path such as folder/picture.jpg"
        raise CorpusError(f"{quote(path)} is not a plain file name", where=where, expected=expected)
    return path


def with_names(
    images: Iterable[Image], captions: Iterable[Caption], name_of: Mapping[str, str]
) -> tuple[list[Image], list[Caption]]:
    """Return records whose ids are paths with the publisher's names as ids.

    Pictures of one name in several folders, such as ``train/1.jpg`` and ``val/1.jpg``, keep their paths.
    """
    shared = Counter(name_of.values())
    ids = {path: path if shared[name] > 1 else name for path, name in name_of.items()}
    return (
        [replace(image, image_id=ids[image.image_id]) for image in images],
        [replace(caption, image_id=ids.get(caption.image_id, caption.image_id)) for caption in captions],
    )
