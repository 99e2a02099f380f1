"""The classifier that Vendrov et al. (2016), section 5.4, train on skip-thoughts: both vectors and their absolute
difference, so that it sees which sentence is the premise; two hidden layers, batch normalisation, PReLU, dropout.
It tells two classes apart by one output, three by three.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sightword.compute.devices import threads
from sightword.compute.optimisers import Adam
from sightword.entailment.judging.judging import energies_of
from sightword.entailment.judging.settings import NetworkSettings
from sightword.evaluation.binary.threshold import best_threshold
from sightword.evaluation.semantics.inputs import Inputs, finite

Logits = NDArray[np.float64]
_ROWS = 1024


def classify(
    train: Inputs,
    dev: Inputs,
    asked: Sequence[Inputs],
    settings: NetworkSettings,
    *,
    seed: int,
    device: torch.device,
) -> list[Logits]:
    """Train the classifier, and return the logits (N, C) of each split asked; of two classes the first has logit 0.

    Adam minimises the cross-entropy; the weights of the epoch with the best accuracy on dev are kept, of two classes at
    the best threshold. On a CPU the training takes one thread, so that the number of threads changes no byte.

    Args:
        train: pairs with the features ``directed``, or ``vector`` for the hypothesis alone, and labels from 0; the last
            class is 'entailment'.
        dev: pairs that select the weights.
        asked: pairs to judge.
        settings: layers and training.
        seed: of the first weights, the order of pairs, and dropout.
        device: where to train.

    Raises:
        SemanticsError: the vectors are so large that features or outputs overflow.
    """
    devices = [device] if device.type == "cuda" else []
    with threads(1), torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        network = _network(train.width, settings).to(device)
        optimiser = Adam(network.parameters(), lr=settings.rate, fused=True)
        order = np.random.default_rng(seed)
        targets = torch.from_numpy(train.labels).to(device)
        best = -1.0, copy.deepcopy(network.state_dict())
        for _ in range(settings.epochs):
            network.train()
            shuffled = order.permutation(len(train))
            for start in range(0, len(train), settings.batch):
                rows = shuffled[start : start + settings.batch]
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
        found: Logits = finite(torch.cat(parts)).double().cpu().numpy()
    return np.pad(found, ((0, 0), (1, 0))) if found.shape[1] == 1 else found
