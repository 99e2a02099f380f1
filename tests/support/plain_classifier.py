"""SentEval's logistic regression written as plainly as its description reads, and examples to try it on."""

from __future__ import annotations

import copy

import numpy as np
import torch

from sightword.evaluation.semantics.encoding import Inputs


def examples(count, seed, classes=3, width=6, kind="vector", dtype=np.float32):
    """Vectors around one centre for each class, so that some but not all can be told apart."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, count)
    centres = np.random.default_rng(99).standard_normal((classes, width))
    vectors = (centres[labels] + 1.5 * random.standard_normal((count, width))).astype(dtype)
    rows = np.arange(count)
    second = None if kind == "vector" else np.roll(rows, 1)
    return Inputs(torch.from_numpy(vectors), kind, rows, second, labels)


def features(part):
    """In numpy, as SentEval stacks them."""
    u = part.vectors.numpy()[part.first]
    if part.second is None:
        return u
    v = part.vectors.numpy()[part.second]
    if part.features == "compared":
        return np.c_[np.abs(u - v), u * v]
    if part.features == "directed":
        return np.c_[u, v, np.abs(u - v)]
    return np.hstack((u, v, u * v, np.abs(u - v)))


def plain_fit(x, y, classes, penalty, seed, dev=None, most_epochs=200):
    """SentEval's classifier with autograd and torch's Adam: (dev accuracy, layer, epochs)."""
    draw = np.random.RandomState(seed).permutation  # numpy's global generator, as it is after np.random.seed(seed)
    torch.manual_seed(seed)
    layer = torch.nn.Linear(x.shape[1], classes)
    optimiser = torch.optim.Adam(layer.parameters(), weight_decay=penalty)
    if dev is None:
        shuffled = draw(len(x))
        cut = int(0.05 * len(x))
        dev = x[shuffled[:cut]], y[shuffled[:cut]]
        x, y = x[shuffled[cut:]], y[shuffled[cut:]]
    x, y = torch.FloatTensor(x), torch.LongTensor(y)
    dev_x, dev_y = torch.FloatTensor(dev[0]), torch.LongTensor(dev[1])
    best_accuracy, best, epoch, worse, stop = -1, None, 0, 0, False
    while not stop and epoch <= most_epochs:
        for _ in range(4):
            order = torch.from_numpy(draw(len(x)))
            for start in range(0, len(x), 64):
                rows = order[start : start + 64]
                loss = torch.nn.functional.cross_entropy(layer(x[rows]), y[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        epoch += 4
        with torch.no_grad():
            found = int((layer(dev_x).max(1)[1] == dev_y).sum()) / len(dev_y)
        if found > best_accuracy:
            best_accuracy, best = found, copy.deepcopy(layer)
        else:
            stop = worse >= 5
            worse += 1
    return best_accuracy, best, epoch
