"""Splits that a hash draws: dev and test where a corpus names none, and the split that one last scoring reads.

The tables have the captions of sealed pictures under their own split, and the readers of captions withhold them
(:func:`sightword.captions.table.read_captions`).
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from pydantic import Field, model_validator
from tqdm import tqdm

from sightword.corpus.listing import Listing
from sightword.corpus.records import Corpus, Image
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError
from sightword.machine import is_address
from sightword.messages import plural, quote
from sightword.places import place as places
from sightword.places.place import Place
from sightword.settings import SEALED

DRAWN_SALT, SEALED_SALT = "sightword drawn split 1\n", "sightword sealed split 1\n"
"""The texts before a picture's id; other texts draw other pictures."""
_LARGEST = 4_000_000_000
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

    A picture is of dev if the number that sha256 makes of :data:`DRAWN_SALT` and its id, from 0 to 1, is below
    ``draw_dev``, and of test below the sum of both shares: a picture that comes or goes moves no other one. Pictures
    with equal bytes follow the first of them, by id.

    Raises:
        CorpusError: a drawn split, or training, has no picture.
    """
    named = corpus.counts()
    wanted = {"dev": settings.draw_dev, "test": settings.draw_test}
    shares = {split: share for split, share in wanted.items() if share and not named[split]}
    if not shares:
        return corpus
    training = [image for image in corpus.images if image.split == "train"]
    originals = _copies(training, listing) if listing else {}
    splits = {image.image_id: _split(originals.get(image.image_id, image.image_id), shares) for image in training}
    counts = Counter(splits.values())
    if empty := [split for split in ("train", *shares) if not counts[split]]:
        what = f"no picture of {len(training)} is drawn for {' and '.join(empty)}"
        todo = "Raise corpus.draw_dev and corpus.draw_test, or name the splits in the data."
        if corpus.dropped:
            lost = corpus.dropped[0]
            what += f" ({plural(len(corpus.dropped), 'record')} left out, such as {quote(lost.item)}: {lost.reason})"
        raise CorpusError(what, where=settings.path, todo=todo)
    told = " and ".join(f"{counts[split]} {split} ({100 * share:g} %)" for split, share in shares.items())
    copies = f", {plural(len(originals), 'copy', 'copies')} with their originals" if originals else ""
    unseen = "" if listing else "; no picture was looked at for copies"
    words = f"{told} of {len(training)} pictures drawn by a hash of their ids{copies}{unseen}"
    return replace(corpus.with_splits(splits), drawing=words)


def seal(corpus: Corpus, count: int) -> Corpus:
    """Return a corpus in which ``count`` training pictures are of the split ``sealed``.

    The pictures with the smallest sha256 of :data:`SEALED_SALT` and their id are drawn, so the draw depends on the
    training pictures' ids alone.

    Raises:
        CorpusError: no training picture would be left.
    """
    if not count:
        return corpus
    training = [image.image_id for image in corpus.images if image.split == "train"]
    if count >= len(training):
        what, expected = f"corpus.seal is {count}", f"fewer than the {len(training)} training pictures"
        raise CorpusError(what, expected=expected, todo="Lower corpus.seal.")
    drawn = heapq.nsmallest(count, training, key=lambda image_id: _digest(SEALED_SALT, image_id))
    return corpus.with_splits(dict.fromkeys(drawn, SEALED))


def _digest(salt: str, image_id: str) -> bytes:
    return hashlib.sha256(f"{salt}{image_id}".encode()).digest()


def _split(image_id: str, shares: Mapping[str, float]) -> str:
    number = int.from_bytes(_digest(DRAWN_SALT, image_id)[:8], "big") / 2**64
    for split, share in shares.items():
        if number < share:
            return split
        number -= share
    return "train"


def _copies(images: Sequence[Image], listing: Listing) -> dict[str, str]:
    """Return the id of the first picture, by id, with the same bytes, of each picture that is not the first one.

    Only pictures of one size are read. Of an object elsewhere, its version stands for its bytes; members of a tar that
    lies elsewhere, and pictures that cannot be read, are not compared.
    """
    content = {image.image_id: image.digest for image in images if image.digest}
    sizes: dict[object, list[tuple[str, Place]]] = {}
    for image in images:
        if image.path and not image.digest:
            place = image.place or listing.place(image.path)
            with contextlib.suppress(OSError):  # the stage resize says why it cannot be read
                if not is_address(place.path):
                    sizes.setdefault(places.size(place), []).append((image.image_id, place))
                elif place.part and place.part.offset is None and place.part.version:
                    content[image.image_id] = place.part.version.encode()
    alike = [one for same in sizes.values() if len(same) > 1 for one in same]
    for image_id, place in tqdm(alike, desc="corpus: copies", unit="picture", disable=None):
        with contextlib.suppress(OSError):
            content[image_id] = hashlib.sha256(places.read(place, _LARGEST)).digest()
    first: dict[bytes, str] = {}
    originals = {image_id: first.setdefault(data, image_id) for image_id, data in sorted(content.items())}
    return {image_id: original for image_id, original in originals.items() if original != image_id}
