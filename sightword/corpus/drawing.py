"""Splits that a hash draws, for corpora that name none."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import numpy as np
from pydantic import Field, model_validator
from tqdm import tqdm

from sightword.corpus.arrays import Rows
from sightword.corpus.compact import DIGEST
from sightword.corpus.listing import Listing
from sightword.corpus.records import ALL_SPLITS, Corpus
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError
from sightword.machine import is_address
from sightword.messages import plural, quote
from sightword.places import place as places
from sightword.places.place import Place

SALT = "sightword drawn split 1\n"
"""The text before a picture's id; another text draws other pictures."""
SHOWN = 1000
"""Pictures to compare from which on a bar is shown."""
LARGEST = 4_000_000_000
"""The most bytes of a picture."""


class NoSplitError(CorpusError):
    """A corpus names no split, and none is drawn."""


class Drawn(CorpusSettings):
    """A format whose files may name no splits; the stage then draws dev and test from the pictures of training."""

    draw_dev: float = Field(0.0, ge=0, lt=1)
    """The share of pictures that become dev where the corpus names no dev, drawn by a hash of their ids; 0 draws
    none. Captions of one picture stay together, and so do pictures of equal bytes."""

    draw_test: float = Field(0.0, ge=0, lt=1)
    """The same for test."""

    @model_validator(mode="after")
    def _some_are_left(self) -> Self:
        if self.draw_dev + self.draw_test >= 1:
            raise ValueError("draw_dev and draw_test leave nothing for training: their sum must be below 1")
        return self

    def undrawn(self, where: object) -> str:
        """Return ``train``, the split of all pictures before the draw; NoSplitError if nothing shall be drawn."""
        if not self.draw_dev and not self.draw_test:
            todo = "Set corpus.draw_dev and corpus.draw_test, such as 0.1 each, to have them drawn."
            expected = "a column split, or files named by splits, such as train.parquet"
            raise NoSplitError("names no split", where=where, expected=expected, todo=todo)
        return "train"


def draw(corpus: Corpus, settings: Drawn, listing: Listing | None) -> Corpus:
    """Return a corpus with pictures drawn for the splits that it lacks.

    A picture is of dev if the number that sha256 makes of :data:`SALT` and its id, from 0 to 1, is below ``draw_dev``,
    and of test below the sum of both shares: a picture that comes or goes moves no other one. Pictures with equal bytes
    follow the first of them, by id.

    Raises:
        CorpusError: a drawn split, or training, has no picture.
    """
    images, splits = corpus.images, corpus.images.split
    shares = {
        split: share
        for split, share in (("dev", settings.draw_dev), ("test", settings.draw_test))
        if share and ALL_SPLITS.index(split) not in splits
    }
    if not shares:
        return corpus
    training = np.flatnonzero(splits == ALL_SPLITS.index("train"))
    first = _equal(corpus, training, listing) if listing else {}
    for place in training.tolist():
        splits[place] = ALL_SPLITS.index(_split(images.image_id(first.get(place, place)), shares))
    counts = {split: int((splits == ALL_SPLITS.index(split)).sum()) for split in ("train", *shares)}
    if empty := [split for split, count in counts.items() if not count]:
        what = f"no picture of {len(training)} is drawn for {' and '.join(empty)}"
        todo = "Raise corpus.draw_dev and corpus.draw_test, or name the splits in the data."
        if corpus.dropped:
            lost = corpus.dropped[0]
            what += f" ({plural(len(corpus.dropped), 'record')} left out, such as {quote(lost.item)}: {lost.reason}"
            what += f", {lost.detail})" if lost.detail else ")"
        raise CorpusError(what, where=settings.path, todo=todo)
    told = " and ".join(f"{counts[split]} {split} ({100 * share:g} %)" for split, share in shares.items())
    copies = f", {plural(len(first), 'copy', 'copies')} with their originals" if first else ""
    unseen = "" if listing else "; no picture was looked at for copies"
    words = f"{told} of {len(training)} pictures drawn by a hash of their ids{copies}{unseen}"
    return replace(corpus, images=images.with_splits(splits), drawing=words)


def _split(image_id: str, shares: Mapping[str, float]) -> str:
    number = int.from_bytes(hashlib.sha256(f"{SALT}{image_id}".encode()).digest()[:8], "big") / 2**64
    for split, share in shares.items():
        if number < share:
            return split
        number -= share
    return "train"


def _equal(corpus: Corpus, training: Rows, listing: Listing) -> dict[int, int]:
    """Return the first picture, by id, with the same bytes, of each picture that is not the first one.

    Only pictures of one size are read. Of an object elsewhere, its version stands for its bytes; members of a tar that
    lies elsewhere are not compared.
    """
    images, content = corpus.images, np.zeros((len(training), 2), np.uint64)
    if images.hashed:
        content[:] = images.digests()[training]
    sizes = np.zeros(len(training), np.int64)
    for number in np.flatnonzero(~content.any(axis=1)).tolist():
        image = images[training[number]]
        size = None if image.path is None else _size(image.place or listing.place(image.path))
        sizes[number] = 0 if size is None else hash(size) or 1
    _, back, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    alike = np.flatnonzero((counts[back] > 1) & (sizes != 0))
    for number in tqdm(alike.tolist(), desc="corpus: copies", unit="picture", disable=len(alike) < SHOWN or None):
        image = images[training[number]]
        content[number] = np.frombuffer(_content(image.place or listing.place(str(image.path))), np.uint64)
    order = np.lexsort((content[:, 1], content[:, 0]))
    new = np.append(True, (content[order][1:] != content[order][:-1]).any(axis=1))
    original = order[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    copies = (original != order) & content[order].any(axis=1)
    return dict(zip(training[order[copies]].tolist(), training[original[copies]].tolist(), strict=True))


def _size(place: Place) -> object:
    """Return the number of bytes, or the version of an object; None for a picture that cannot be compared."""
    if is_address(place.path):
        whole = place.part and place.part.offset is None
        return place.part.version if place.part and whole else None
    try:
        return places.size(place)
    except OSError:
        return None  # the stage resize says why it cannot be read


def _content(place: Place) -> bytes:
    """Return a hash of a picture's bytes, or of the version of an object; zeros if the picture cannot be read."""
    if is_address(place.path):
        return hashlib.sha256(str(place.part and place.part.version).encode()).digest()[:DIGEST]
    try:
        return hashlib.sha256(places.read(place, LARGEST)).digest()[:DIGEST]
    except OSError:
        return bytes(DIGEST)
