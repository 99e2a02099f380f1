"""The classifier that Vendrov et al. (2016), section 5.4, train on skip-thoughts: both vectors and their absolute
difference, so that it sees which sentence is the premise; two hidden layers, batch normalisation, PReLU, dropout.
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
from sightword.entailment.judging.settings import NetworkSettings
from sightword.evaluation.binary.threshold import best_threshold
from sightword.evaluation.semantics.inputs import Inputs, finite

Energies = NDArray[np.float64]
_ROWS = 1024


def classify(
    train: Inputs,
    dev: Inputs,
    asked: Sequence[Inputs],
    settings: NetworkSettings,
    *,
    seed: int,
    device: torch.device,
) -> list[Energies]:
    """Train the classifier, and return the energy of each pair of the splits asked: minus the logit of 'entailed'.

    Adam minimises the binary cross-entropy; the weights of the epoch with the best accuracy on dev, at its best
    threshold, are kept. On a CPU the training takes one thread, so that the number of threads changes no byte.

    Args:
        train: pairs with the features ``directed``, or ``vector`` for the hypothesis alone, and labels 0 or 1.
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
        targets = torch.from_numpy(train.labels).float().to(device)
        best = -1.0, copy.deepcopy(network.state_dict())
        for _ in range(settings.epochs):
            network.train()
            shuffled = order.permutation(len(train))
            for start in range(0, len(train), settings.batch):
                rows = shuffled[start : start + settings.batch]
                if len(rows) < 2:
                    continue  # batch normalisation needs two
                logits = network(train.batch(rows).to(device)).squeeze(1)
                wanted = targets[torch.from_numpy(rows).to(device)]
                optimiser.zero_grad()
                nn.functional.binary_cross_entropy_with_logits(finite(logits), wanted).backward()  # type: ignore[no-untyped-call]  # torch gives it no type
                optimiser.step()
            _, score = best_threshold(_energies(network, dev, device), dev.labels.astype(bool))
            if score > best[0]:
                best = score, copy.deepcopy(network.state_dict())
        network.load_state_dict(best[1])
        return [_energies(network, one, device) for one in asked]


def _network(width: int, settings: NetworkSettings) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Dropout(settings.dropout)]
    for inputs in (width, settings.hidden):
        layers += [nn.Linear(inputs, settings.hidden), nn.BatchNorm1d(settings.hidden), nn.PReLU(settings.hidden)]
        layers.append(nn.Dropout(settings.dropout))
    return nn.Sequential(*layers, nn.Linear(settings.hidden, 1))


def _energies(network: nn.Sequential, pairs: Inputs, device: torch.device) -> Energies:
    network.eval()
    with torch.inference_mode():
        starts = range(0, len(pairs), _ROWS)
        parts = [network(pairs.batch(slice(start, start + _ROWS)).to(device)).squeeze(1) for start in starts]
        found: Energies = -finite(torch.cat(parts)).double().cpu().numpy()
    return found
