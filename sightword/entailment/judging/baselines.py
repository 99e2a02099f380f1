"""Baselines: the majority, the share of new words, and a logistic regression that sees the hypothesis only.

The first two give energies, low where the premise is said to entail the hypothesis; the regression gives logits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.entailment.data.pairs import SentencePairs
from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classifier import AdamRegression, Layer
from sightword.evaluation.semantics.inputs import Inputs
from sightword.evaluation.semantics.results import bare

Energies = NDArray[np.float64]
Logits = NDArray[np.float64]


def words(sentence: str) -> list[str]:
    """Return the words of a sentence in folded case, without punctuation."""
    return bare(sentence).split()


def majority(pairs: SentencePairs) -> Energies:
    """Return equal energies (N,): the threshold accepts all pairs or none."""
    return np.zeros(len(pairs))


def new_words(pairs: SentencePairs) -> Energies:
    """Return the share of distinct words of each hypothesis that its premise lacks, (N,); 0 without words."""
    known = {text: set(words(text)) for text in {*pairs.premises, *pairs.hypotheses}}
    shares = [
        len(known[hypothesis] - known[premise]) / max(1, len(known[hypothesis]))
        for premise, hypothesis in zip(pairs.premises, pairs.hypotheses, strict=True)
    ]
    return np.array(shares, np.float64)


def hypothesis_only(
    train: SentencePairs, dev: SentencePairs, asked: Sequence[SentencePairs], *, features: int, classes: int, seed: int
) -> list[Logits]:
    """Fit SentEval's logistic regression to the hypotheses of training, and return the logits of each split asked.

    The features are whether a hypothesis has a word, or a pair of neighbouring words: those that stand in at least two
    training hypotheses, the ``features`` most frequent of them. Accuracy on dev selects the weight decay and the epoch
    (:class:`sightword.evaluation.semantics.classifier.AdamRegression`). The logits (N, C) are those of the classes, two
    or three, in the order of :data:`sightword.entailment.data.pairs.CLASSES`.

    Raises:
        SemanticsError: no word stands in two training hypotheses.
    """
    often = Counter(item for text in train.hypotheses for item in _items(text))
    ranked = sorted((item for item, count in often.items() if count > 1), key=lambda item: (-often[item], item))
    places = {item: place for place, item in enumerate(ranked[:features])}
    if not places:
        what = f"no word stands in two of the {len(train)} training hypotheses"
        raise SemanticsError(what, todo="Add training pairs: the baseline without the premise learns from their words.")
    regression = AdamRegression(classes=classes, seed=seed)
    learned, chosen, *judged = (_Bags.of(pairs, places, classes) for pairs in (train, dev, *asked))
    fits = regression.scan(learned, chosen, regression.grid)
    _, layer = max(fits, key=lambda fit: fit[0])
    parts = [[one.logits(slice(at, at + 1024), layer) for at in range(0, len(one), 1024)] for one in judged]
    return [torch.cat(one).double().numpy() for one in parts]


def _items(text: str) -> set[str]:
    own = words(text)
    return {*own, *(f"{one} {other}" for one, other in pairwise(own))}


@dataclass(frozen=True)
class _Bags(Inputs):
    """Texts as bags of features, which are made dense batch by batch."""

    bags: tuple[NDArray[np.int64], ...]
    """The features of each text."""
    features_of_a_bag: int

    @classmethod
    def of(cls, pairs: SentencePairs, places: Mapping[str, int], classes: int) -> _Bags:
        known: dict[str, NDArray[np.int64]] = {}
        for text in pairs.hypotheses:
            if text not in known:
                known[text] = np.array(sorted(places[item] for item in _items(text) if item in places), np.int64)
        rows, labels = np.arange(len(pairs)), pairs.classes(classes)
        bags = tuple(known[text] for text in pairs.hypotheses)
        return cls(torch.empty(0), "vector", rows, None, labels, bags, len(places))

    @property
    def width(self) -> int:
        return self.features_of_a_bag

    def batch(self, index: NDArray[np.int64] | slice) -> torch.Tensor:
        rows = [self.bags[row] for row in self.first[index]]
        found = torch.zeros(len(rows), self.width)
        lines = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        found[torch.from_numpy(lines), torch.from_numpy(np.concatenate([*rows, np.empty(0, np.int64)]))] = 1.0
        return found

    def logits(self, index: slice, layer: Layer) -> torch.Tensor:
        return torch.addmm(layer.bias, self.batch(index), layer.weight.T)
