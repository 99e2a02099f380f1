"""Baselines of entailment, and a classifier on an encoder's vectors.

The baselines are the majority, the share of new words, and a logistic regression that sees the hypothesis only. The
classifier follows Vendrov et al. (2016), section 5.4, on skip-thoughts: both vectors and their absolute difference;
two hidden layers, batch normalisation, PReLU, dropout. One output tells two classes apart, three tell three.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sightword.compute.devices import Adam, threads
from sightword.entailment.data.pairs import SentencePairs
from sightword.entailment.settings import NetworkSettings
from sightword.errors import SemanticsError
from sightword.evaluation.binary import best_threshold
from sightword.evaluation.semantics.classifier import AdamRegression, Layer
from sightword.evaluation.semantics.encoding import Inputs, finite
from sightword.evaluation.semantics.results import bare

Energies = NDArray[np.float64]
Logits = NDArray[np.float64]
BATCH, RATE = 128, 0.001
"""Pairs of a step and learning rate of the classifier."""
_ROWS = 1024


def energies_of(logits: Logits) -> Energies:
    """Return minus the log-odds (N,) of 'entailment', the last of C classes with logits (N, C)."""
    energies: Energies = np.logaddexp.reduce(logits[:, :-1], axis=1) - logits[:, -1]
    return energies


def words(sentence: str) -> list[str]:
    """Return the words of a sentence in folded case, without punctuation."""
    return bare(sentence).split()


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
    """Fit SentEval's logistic regression to the hypotheses of training; return the logits (N, C) of each split asked.

    The features are whether a hypothesis has a word or a pair of neighbouring words that two training hypotheses have,
    the ``features`` most frequent. Accuracy on dev selects the weight decay and the epoch.

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
    each = words(text)
    return {*each, *map(" ".join, pairwise(each))}


@dataclass(frozen=True)
class _Bags(Inputs):
    """Texts as bags of features, which are made dense batch by batch."""

    bags: tuple[NDArray[np.int64], ...]  # the features of each text
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
        counts = torch.zeros(len(rows), self.width)
        lines = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        counts[torch.from_numpy(lines), torch.from_numpy(np.concatenate([*rows, np.empty(0, np.int64)]))] = 1.0
        return counts

    def logits(self, index: slice, layer: Layer) -> torch.Tensor:
        return torch.addmm(layer.bias, self.batch(index), layer.weight.T)


def classify(
    train: Inputs, dev: Inputs, asked: Sequence[Inputs], settings: NetworkSettings, *, seed: int, device: torch.device
) -> list[Logits]:
    """Train the classifier, and return the logits (N, C) of each split asked; of two classes the first has logit 0.

    Adam minimises the cross-entropy; the weights of the epoch with the best accuracy on dev are kept, of two classes at
    the best threshold. On a CPU the training takes one thread, so that the number of threads changes no byte.
    SemanticsError if the vectors are so large that features or outputs overflow.
    """
    devices = [device] if device.type == "cuda" else []
    with threads(1), torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        network = _network(train.width, settings).to(device)
        optimiser = Adam(network.parameters(), lr=RATE, fused=True)
        order = np.random.default_rng(seed)
        targets = torch.from_numpy(train.labels).to(device)
        best = -1.0, copy.deepcopy(network.state_dict())
        for _ in range(settings.epochs):
            network.train()
            shuffled = order.permutation(len(train))
            for start in range(0, len(train), BATCH):
                rows = shuffled[start : start + BATCH]
                if len(rows) < 2:
                    continue  # batch normalisation needs two
                logits = finite(network(train.batch(rows).to(device)))
                wanted = targets[torch.from_numpy(rows).to(device)]
                optimiser.zero_grad()
                _loss(logits, wanted).backward()  # type: ignore[no-untyped-call]  # torch gives it no type
                optimiser.step()
            score = _accuracy(_logits(network, dev, device), dev.labels)
            if score > best[0]:
                best = score, copy.deepcopy(network.state_dict())
        network.load_state_dict(best[1])
        return [_logits(network, one, device) for one in asked]


def _network(width: int, settings: NetworkSettings) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Dropout(settings.dropout)]
    for inputs in (width, settings.hidden):
        layers += [nn.Linear(inputs, settings.hidden), nn.BatchNorm1d(settings.hidden), nn.PReLU(settings.hidden)]
        layers.append(nn.Dropout(settings.dropout))
    return nn.Sequential(*layers, nn.Linear(settings.hidden, 1 if settings.classes == 2 else settings.classes))


def _loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if logits.shape[1] == 1:
        return nn.functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels.float())
    return nn.functional.cross_entropy(logits, labels)


def _accuracy(logits: Logits, labels: NDArray[np.int64]) -> float:
    if logits.shape[1] == 2:
        return best_threshold(energies_of(logits), labels == 1)[1]
    return float((logits.argmax(1) == labels).mean())


def _logits(network: nn.Sequential, pairs: Inputs, device: torch.device) -> Logits:
    network.eval()
    with torch.inference_mode():
        starts = range(0, len(pairs), _ROWS)
        parts = [network(pairs.batch(slice(start, start + _ROWS)).to(device)) for start in starts]
        logits: Logits = finite(torch.cat(parts)).double().cpu().numpy()
    return np.pad(logits, ((0, 0), (1, 0))) if logits.shape[1] == 1 else logits
