"""Sentence pairs as token ids, and the minibatches of an epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightword.captions.vocabulary import Vocabulary
from sightword.entailment.data.pairs import SentencePairs
from sightword.errors import SemanticsError
from sightword.messages import quote

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class EncodedPairs:
    """N pairs of M different sentences."""

    sentences: list[Rows]
    """The token ids of each of the M sentences, sorted by their first place among the pairs."""
    premises: Rows
    """(N,) places in ``sentences``."""
    hypotheses: Rows
    """(N,) places in ``sentences``."""
    entailed: NDArray[np.bool_]
    """(N,) whether the premise entails the hypothesis."""

    def __len__(self) -> int:
        return len(self.entailed)

    @classmethod
    def of(cls, pairs: SentencePairs, vocabulary: Vocabulary) -> EncodedPairs:
        """Encode pairs; sentences with equal ids are one.

        Raises:
            SemanticsError: a sentence has no token after normalisation.
        """
        place_of: dict[bytes, int] = {}
        known: dict[str, int] = {}
        sentences: list[Rows] = []

        def place(text: str) -> int:
            if text not in known:
                ids = np.asarray(vocabulary.encode(text), np.int64)
                if not len(ids):
                    what = f"the sentence {quote(text)} has no {vocabulary.unit} after normalisation"
                    raise SemanticsError(what, todo="Remove the pair from its source, or normalise less.")
                known[text] = place_of.setdefault(ids.tobytes(), len(sentences))
                if known[text] == len(sentences):
                    sentences.append(ids)
            return known[text]

        both = [(place(one), place(other)) for one, other in zip(pairs.premises, pairs.hypotheses, strict=True)]
        premises, hypotheses = np.array(both, np.int64).T
        return cls(sentences, premises, hypotheses, pairs.entailed)


def batches(pairs: EncodedPairs, *, size: int, seed: int, epoch: int, group_premises: bool = False) -> list[Rows]:
    """Return the pairs of each minibatch of an epoch; every epoch has the same number of batches.

    Args:
        pairs: the training pairs.
        size: pairs in a batch; the last one has the rest.
        seed: with the epoch, counted from 0, it determines the order on every machine.
        epoch: the epoch.
        group_premises: the premises are shuffled, and all pairs of a premise follow each other, in a random order.

    Returns:
        For each batch an int64 array of rows into the pairs.
    """
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))
    order = random.permutation(len(pairs))
    if group_premises:
        place_of = random.permutation(len(pairs.sentences))
        order = order[np.argsort(place_of[pairs.premises[order]], kind="stable")]
    return np.split(order, range(size, len(pairs), size))
