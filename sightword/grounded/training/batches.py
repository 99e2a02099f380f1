"""Captions with their pictures, and the batches of a training run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sightword.captions.vocabulary import Vocabulary
from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs, first_copies
from sightword.grounded.training.settings import Scenario
from sightword.model.similarity import unit_rows

log = logging.getLogger(__name__)

Rows = npt.NDArray[np.int64]
_CLUSTERS, _PICTURES, _ORDER, _BATCH = range(4)
"""Streams of random numbers of a seed."""


@dataclass(frozen=True, eq=False)
class Described:
    """One split: M captions as token ids, N pictures, and the picture of each caption."""

    ids: list[npt.NDArray[np.int64]]
    """The token ids of each caption."""
    picture_of: Rows
    """(M,) the picture of each caption."""
    features: npt.NDArray[np.float32]
    """(N, F) the features of each picture."""
    copy_of: Rows
    """(N,) the first picture with the same features: a picture and its copies have one number."""
    shown: Rows
    """(N,) the picture whose features each picture has, by ``copy_of``: another one if pictures are shuffled."""
    left_out: int = 0
    """Number of captions that were too long."""

    @classmethod
    def of(cls, ids: Sequence[npt.NDArray[np.int64]], picture_of: Rows, features: npt.NDArray[np.float32]) -> Described:
        """Find the copies of pictures."""
        copy_of = first_copies(features)
        return cls(list(ids), picture_of, features, copy_of, copy_of)

    def controlled(self, scenario: Scenario, seed: int) -> Described:
        """Return the split with shuffled pictures or clusters, where the scenario has these controls."""
        features, shown, picture_of = self.features, self.shown, self.picture_of
        if scenario.clusters == "shuffled":
            picture_of = _random(seed, _CLUSTERS).permutation(picture_of)
        if scenario.pictures == "shuffled":
            order = _random(seed, _PICTURES).permutation(len(features))
            features, shown = features[order], shown[order]
        return replace(self, picture_of=picture_of, features=features, shown=shown)

    @cached_property
    def captions_of(self) -> tuple[Rows, Rows]:
        """The captions sorted by picture (M,), and the start of each picture's captions (N + 1,)."""
        counts = np.bincount(self.picture_of, minlength=len(self.features))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return np.argsort(self.picture_of, kind="stable").astype(np.int64), starts

    @property
    def copies(self) -> int:
        """Number of pictures with the features of an earlier picture."""
        return len(self.features) - len(np.unique(self.copy_of))

    @property
    def single(self) -> int:
        """Number of pictures with fewer than two captions."""
        return int((np.diff(self.captions_of[1]) < 2).sum())


@dataclass(frozen=True)
class Batch:
    """B pictures, a caption of each, and another caption of each."""

    pictures: Rows
    """(B,) no picture twice."""
    first: Rows
    """(B,) a caption of each picture."""
    second: Rows
    """(B,) another caption of each picture; -1 for a picture with one caption only."""
    draws: npt.NDArray[np.float32]
    """(2, B, B) random numbers from 0 to 1, for the choice of mismatches."""


def described(pairs: Pairs, most: int, vocabulary: Vocabulary | None = None) -> Described:
    """Return captions with their pictures, without captions of ``most`` tokens or more (released code).

    The ids are those of the split, or of the ``vocabulary`` of another start.

    Raises:
        TrainingError: all captions are too long.
    """
    kept = [row for row, ids in enumerate(pairs.ids) if len(ids) < most]
    if not kept:
        what = f"all {len(pairs.ids)} captions have {most} tokens or more"
        raise TrainingError(what, todo="Raise text.max_tokens.")
    pictures, picture_of = np.unique(pairs.image_of_caption[kept], return_inverse=True)
    if vocabulary is None:
        ids = [pairs.ids[row] for row in kept]
    else:
        ids = vocabulary.rows([pairs.texts[row] for row in kept])
    found = Described.of(ids, picture_of.astype(np.int64), pairs.features[pictures])
    return replace(found, left_out=len(pairs.ids) - len(kept))


def check(split: Described, scenario: Scenario) -> None:
    """Refuse captions and pictures that the losses of a scenario cannot be computed with.

    Raises:
        TrainingError: there are fewer pictures than a batch has, too few with two captions, or all have equal features.
    """
    count = len(split.features)
    if count < scenario.batch:
        todo = "Lower batch in grounded/params.yaml, or give more pictures."
        raise TrainingError(f"a batch has {scenario.batch} pictures, and training has {count}", todo=todo)
    if scenario.pairs_captions:
        paired = count - split.single
        if paired < 2:
            todo = "Set cluster and cap2cap to 0 (the perceptual loss needs one caption), or give more captions."
            need = "the cluster loss and cap2cap need two captions of a picture"
            raise TrainingError(f"{need}; {paired} of {count} pictures have them", expected="at least 2", todo=todo)
        if split.single:
            log.warning(
                "%d of %d pictures have one caption: they are left out of cluster loss and cap2cap", split.single, count
            )
    if scenario.compares_pictures:
        different = len(np.unique(split.copy_of))
        least = 3 if scenario.perceptual else 2
        if different < least or (scenario.perceptual and _one_direction(split.features)):
            what = f"the features of {count} pictures are constant ({different} different, or all in one direction)"
            todo = (
                "Similarities of pictures mean nothing then (Pearson's correlation is undefined): check the features."
            )
            raise TrainingError(what, todo=todo)


def batch(split: Described, scenario: Scenario, seed: int, number: int) -> Batch:
    """Return batch ``number`` of a training run, from 0; it depends on nothing else.

    An epoch is a random order of the pictures, cut into whole batches; the rest of the order is left out. The captions
    of a picture are drawn evenly.
    """
    each = len(split.features) // scenario.batch
    epoch, place = divmod(number, each)
    order = _random(seed, _ORDER, epoch).permutation(len(split.features))
    pictures = order[place * scenario.batch : (place + 1) * scenario.batch]
    random = _random(seed, _BATCH, number)
    captions, starts = split.captions_of
    counts = starts[pictures + 1] - starts[pictures]
    one = random.integers(counts)
    step = random.integers(1, np.maximum(counts, 2))
    other = np.where(counts > 1, captions[starts[pictures] + (one + step) % counts], -1)
    draws = random.random((2, len(pictures), len(pictures)), dtype=np.float32)
    return Batch(pictures, captions[starts[pictures] + one], other, draws)


def _one_direction(features: npt.NDArray[np.float32]) -> bool:
    """Return whether all features are multiples of one vector, as far as float32 can tell."""
    values = unit_rows(features[:1000].astype(np.float64))
    return bool(np.ptp(values @ values[0]) < 1e-6)


def _random(*seeds: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seeds)))
