"""Baselines: the majority, the share of new words, and a logistic regression that sees the hypothesis only.

Each gives energies, low where the premise is said to entail the hypothesis; the threshold is chosen on dev.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.entailment.data.pairs import SentencePairs
from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classifier import AdamRegression
from sightword.evaluation.semantics.inputs import Inputs
from sightword.evaluation.semantics.results import bare

Energies = NDArray[np.float64]


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
    train: SentencePairs, dev: SentencePairs, asked: Sequence[SentencePairs], *, features: int, seed: int
) -> list[Energies]:
    """Fit SentEval's logistic regression to the hypotheses of training, and return the energies of each split asked.

    The features are whether a hypothesis has a word, or a pair of neighbouring words: those that stand in at least two
    training hypotheses, the ``features`` most frequent of them. Accuracy on dev selects the weight decay and the epoch
    (:class:`sightword.evaluation.semantics.classifier.AdamRegression`). The energy is the logit of 'not entailed' minus
    that of 'entailed'.

    Raises:
        SemanticsError: no word stands in two training hypotheses.
    """
    often = Counter(item for text in train.hypotheses for item in _items(text))
    ranked = sorted((item for item, count in often.items() if count > 1), key=lambda item: (-often[item], item))
    places = {item: place for place, item in enumerate(ranked[:features])}
    if not places:
        what = f"no word stands in two of the {len(train)} training hypotheses"
        raise SemanticsError(what, todo="Add training pairs: the baseline without the premise learns from their words.")
    regression = AdamRegression(classes=2, seed=seed)
    fits = regression.scan(_Bags.of(train, places), _Bags.of(dev, places), regression.grid)
    _, layer = max(fits, key=lambda fit: fit[0])
    found = []
    for pairs in asked:
        bags = _Bags.of(pairs, places)
        parts = [
            bags.logits(slice(start, start + 1024), layer.weight, layer.bias) for start in range(0, len(pairs), 1024)
        ]
        logits = torch.cat(parts).double()
        found.append((logits[:, 0] - logits[:, 1]).numpy())
    return found


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
    def of(cls, pairs: SentencePairs, places: Mapping[str, int]) -> _Bags:
        known: dict[str, NDArray[np.int64]] = {}
        for text in pairs.hypotheses:
            if text not in known:
                known[text] = np.array(sorted(places[item] for item in _items(text) if item in places), np.int64)
        rows, labels = np.arange(len(pairs)), pairs.entailed.astype(np.int64)
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

    def logits(self, index: slice, weight: torch.Tensor, bias: torch.Tensor) -> Any:
        return torch.addmm(bias, self.batch(index), weight.T)
