"""Two ways from a pair of vectors to a score: the cosine, and SentEval's trained head.

Both as in facebookresearch/SentEval, commit 5d6dc117 (``senteval/sts.py``,
``senteval/sick.py``, ``senteval/tools/relatedness.py``), with what its code does under
today's torch: the mean squared error is a mean (``size_average=False`` is ignored).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.devices import threads
from sightword.errors import SemanticsError
from sightword.statistics import pearson

Vectors = NDArray[np.floating[Any]]

CLASSES = 5
BATCH = 64
CHECK_EVERY = 50
"""Epochs between two looks at the dev pairs."""
WORSE_CHECKS = 4
"""Training stops at the fourth look without a better correlation; the count is never set back."""
MOST_EPOCHS = 1000
"""A round of 50 epochs starts while no more than this many are done, so that 1050 are the most."""


def cosine(first: Vectors, second: Vectors) -> NDArray[np.float64]:
    """Cosines of pairs of vectors, in float64; a pair with a vector of zeros has 0, as in SentEval.

    The root is taken of the product of both squared norms, so that equal vectors have a
    cosine of exactly 1 on every machine and tie with one another in Spearman's ranks.

    Args:
        first: (N, D).
        second: (N, D).

    Returns:
        (N,) cosines.
    """
    a, b = _scaled(first), _scaled(second)
    dots = np.einsum("nd,nd->n", a, b)
    norms = np.sqrt(np.einsum("nd,nd->n", a, a) * np.einsum("nd,nd->n", b, b))
    cosines: NDArray[np.float64] = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
    return cosines


def _scaled(vectors: Vectors) -> NDArray[np.float64]:
    """In float64, each row divided by a power of two near its largest entry: exact, and no square overflows."""
    rows = vectors.astype(np.float64)
    _, exponent = np.frexp(np.abs(rows).max(axis=1, keepdims=True))
    scaled: NDArray[np.float64] = np.ldexp(rows, -exponent)
    return scaled


@dataclass(frozen=True)
class Examples:
    """Pairs of vectors with their gold scores."""

    first: Vectors
    """(N, D)"""
    second: Vectors
    """(N, D)"""
    gold: NDArray[np.float64]
    """(N,) between 0 and 5"""


@dataclass(frozen=True)
class HeadScores:
    """What the trained head gives."""

    predicted: NDArray[np.float64]
    """(N,) the expected class of each test pair."""
    dev_pearson: float
    """The correlation on the dev pairs by which the weights were chosen."""


def train_head(train: Examples, dev: Examples, test: Examples, *, seed: int = 1111) -> HeadScores | None:
    """SentEval's relatedness head: a softmax layer over the classes 1 to 5 on ``|u - v|`` and ``u * v``.

    Targets spread a gold score over its two neighbouring classes (below 1 they do not
    sum to 1, since STS Benchmark starts at 0 and the classes at 1). Mean squared error,
    Adam at its defaults, batches of 64, weights of the best dev correlation.

    Args:
        train: in the order in which SentEval has them, by the two lengths in tokens and the score:
            the seeded batches are drawn from that order.
        dev: chooses when to stop and which weights are kept.
        test: what is predicted.
        seed: of the first weights and the batches; SentEval's is 1111.

    Returns:
        The predictions, or None where no look at the dev pairs gave a correlation, because
        the head's answer was the same for all of them. One thread does the work, so that
        the result does not depend on the machine's setting; on a CPU always.

    Raises:
        SemanticsError: the vectors are so large that the head overflows.
    """
    x, y = _features(train), torch.from_numpy(_targets(train.gold))
    dev_x, test_x = _features(dev), _features(test)
    with threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        start = torch.nn.Linear(x.shape[1] - 1, CLASSES)
        layer = torch.cat([start.weight.detach(), start.bias.detach()[:, None]], dim=1)  # (5, 2D + 1)
        order = np.random.RandomState(seed)  # SentEval's generator, so the same batches
        optimiser = torch.optim.Adam([layer], fused=True)
        best: tuple[float, torch.Tensor] | None = None
        epoch = worse = 0
        while worse < WORSE_CHECKS and epoch <= MOST_EPOCHS:
            for _ in range(CHECK_EVERY):
                _epoch(layer, optimiser, x, y, torch.from_numpy(order.permutation(len(x))))
            epoch += CHECK_EVERY
            r = pearson(_expected(layer, dev_x), dev.gold)
            if r is not None and (best is None or r > best[0]):
                best = r, layer.clone()
            else:
                worse += 1
        if best is None:
            return None
        return HeadScores(_expected(best[1], test_x), best[0])


def _epoch(
    layer: torch.Tensor, optimiser: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor, order: torch.Tensor
) -> None:
    """One pass over the training pairs; the gradient of softmax and squared error is written out, for speed."""
    for rows in torch.split(order, BATCH):
        inputs, targets = x[rows], y[rows]
        shares = torch.softmax(inputs @ layer.T, dim=1)  # (64, 5)
        error = (shares - targets) * (2.0 / targets.numel())
        pull = shares * (error - (error * shares).sum(dim=1, keepdim=True))
        layer.grad = pull.T @ inputs
        optimiser.step()


def _expected(layer: torch.Tensor, x: torch.Tensor) -> NDArray[np.float64]:
    """The expected class of each pair, in float64: in float32 equal pairs get answers with other last bits."""
    classes = torch.arange(1, CLASSES + 1, dtype=torch.float64)
    weights = layer.double().T
    parts = [torch.softmax(part.double() @ weights, dim=1) @ classes for part in torch.split(x, 1024)]
    expected: NDArray[np.float64] = torch.cat(parts).numpy()
    if not np.isfinite(expected).all():
        raise too_large()
    return expected


def _features(examples: Examples) -> torch.Tensor:
    """(N, 2D + 1) float32: the difference's size, the product, and a one for the bias.

    Vectors of half precision are taken in single precision, as their products would overflow.

    Raises:
        SemanticsError: what comes out is not finite.
    """
    u, v = (side.astype(np.float32) if side.dtype.itemsize < 4 else side for side in (examples.first, examples.second))
    ones = np.ones((len(u), 1), dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # told below
        features = np.hstack([np.abs(u - v).astype(np.float32), (u * v).astype(np.float32), ones])
    if not np.isfinite(features).all():
        raise too_large()
    return torch.from_numpy(features)


def too_large() -> SemanticsError:
    """What is said where single precision cannot hold what a classifier makes of the vectors."""
    return SemanticsError(
        "the encoder's vectors are so large that a classifier on them overflows",
        expected="features and products that single precision can hold",
        todo="Scale the vectors down.",
    )


def _targets(gold: NDArray[np.float64]) -> NDArray[np.float32]:
    """(N, 5) each score spread on the classes below and above it (Tai, Socher & Manning 2015, equation 15)."""
    floor = np.floor(gold)
    classes = np.arange(1, CLASSES + 1)
    above = (classes == floor[:, None] + 1) * (gold - floor)[:, None]
    below = (classes == floor[:, None]) * (floor - gold + 1)[:, None]
    targets: NDArray[np.float32] = (above + below).astype(np.float32)
    return targets
