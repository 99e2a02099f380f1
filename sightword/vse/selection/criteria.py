"""The scores that ``select.criterion`` names: sums of recall on dev, or sentence similarity on a dev part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sightword.encoder.arguments import LONGEST
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.semantics.datasets import RatedPairs
from sightword.evaluation.semantics.encoding import embed
from sightword.evaluation.semantics.relatedness import cosine
from sightword.statistics.inference import pearson
from sightword.vse.selection.settings import STSB_DEV
from sightword.vse.training.snapshots import DEPTHS, DIRECTIONS

UNDEFINED = -100.0
"""The similarity score of an encoder that gives all pairs one cosine: the lowest one."""


def mean_r10(recall: Mapping[str, Any]) -> float:
    """Return the mean recall@10 of both directions, in percent."""
    return float(recall["caption_to_image"]["r10"] + recall["image_to_caption"]["r10"]) / 2


def _rsum(recall: Mapping[str, Any], *directions: str) -> float:
    return float(sum(sum(recall[direction][f"r{k}"] for k in DEPTHS) for direction in directions))


_RECALLS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "mean_r10": mean_r10,
    "caption_to_image_rsum": lambda recall: _rsum(recall, "caption_to_image"),
    "rsum": lambda recall: _rsum(recall, *DIRECTIONS),
}


class Criterion:
    """The score that the choice compares, by the name of ``select.criterion``; more is better.

    Args:
        name: the name.
        pairs: the sentence pairs with people's scores, for ``stsb_dev``.
    """

    def __init__(self, name: str, pairs: RatedPairs | None = None) -> None:
        self.name, self.pairs = name, pairs
        assert (pairs is not None) == (name == STSB_DEV)

    def of(self, recall: Mapping[str, Any], encoder: Callable[[], SentenceEncoder]) -> float:
        """Return the score, in percent or as 100 times Pearson's r.

        Args:
            recall: recall@1, 5 and 10 of both directions, in percent.
            encoder: returns the encoder; called only where sentences are encoded.
        """
        return _RECALLS[self.name](recall) if self.pairs is None else similarity(encoder(), self.pairs)


def similarity(encoder: SentenceEncoder, pairs: RatedPairs) -> float:
    """Return 100 times Pearson's r of cosines and people's scores; :data:`UNDEFINED` where all cosines are equal."""
    vectors = embed(lambda texts: encoder.encode(texts, max_length=LONGEST), [*pairs.first, *pairs.second])
    found = pearson(cosine(vectors.of(pairs.first), vectors.of(pairs.second)), pairs.gold)
    return UNDEFINED if found is None else 100.0 * found
