"""Scores a pair of vectors in two ways: by the cosine, and by SentEval's trained head.

Both follow facebookresearch/SentEval, commit 5d6dc117 (``senteval/sts.py``, ``senteval/sick.py``,
``senteval/tools/relatedness.py``), as its code behaves with today's torch: the mean squared error is a mean
(``size_average=False`` is ignored).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.compute.devices import Adam, threads
from sightword.errors import SemanticsError
from sightword.evaluation.semantics.encoding import Inputs, finite
from sightword.statistics.inference import pearson

Vectors = NDArray[np.floating[Any]]

CLASSES = 5
BATCH = 64
CHECK_EVERY = 50
"""Epochs between two checks on the dev pairs."""
WORSE_CHECKS = 4
"""Training stops at the fourth check without a better correlation; the count is never reset."""
MOST_EPOCHS = 1000
"""A round of 50 epochs starts after at most this many epochs, so training ends after 1050 epochs at most."""


def cosine(first: Vectors, second: Vectors) -> NDArray[np.float64]:
    """Return the (N,) cosines of pairs of (N, D) vectors in float64; zero for a vector of zeros, as in SentEval.

    The norm is the root of the product of both squared norms, so that equal vectors have a cosine of exactly 1 on every
    machine and tie in Spearman's ranks.
    """
    a, b = _scaled(first), _scaled(second)
    dots = np.einsum("nd,nd->n", a, b)
    norms = np.sqrt(np.einsum("nd,nd->n", a, a) * np.einsum("nd,nd->n", b, b))
    cosines: NDArray[np.float64] = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
    return cosines


def _scaled(vectors: Vectors) -> NDArray[np.float64]:
    """Return float64 rows divided by a power of two near their largest entry: exact, and no square overflows."""
    rows = vectors.astype(np.float64)
    _, exponent = np.frexp(np.abs(rows).max(axis=1, keepdims=True))
    scaled: NDArray[np.float64] = np.ldexp(rows, -exponent)
    return scaled


class HeadScores(NamedTuple):
    """The trained head's (N,) expected classes of the test pairs, and the correlation on dev that chose its weights."""

    predicted: NDArray[np.float64]
    dev_pearson: float


def train_head(train: Inputs, dev: Inputs, test: Inputs, *, seed: int = 1111) -> HeadScores | None:
    """Train SentEval's relatedness head: a softmax layer over the classes 1 to 5 on ``|u - v|`` and ``u * v``.

    Targets spread a gold score over its two neighbouring classes (below 1 they do not sum to 1, since STS Benchmark
    starts at 0 and the classes at 1). Mean squared error, Adam with its defaults, batches of 64, weights of the best
    correlation on ``dev``. Training always runs in one CPU thread. ``train`` is in SentEval's order, by the two lengths
    in tokens and the score. None if the head scored all dev pairs equally at each check; SemanticsError on overflow.
    """
    x, y = _features(train), torch.from_numpy(_targets(train.labels))
    dev_x, test_x = _features(dev), _features(test)
    with threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        start = torch.nn.Linear(x.shape[1] - 1, CLASSES)
        layer = torch.cat([start.weight.detach(), start.bias.detach()[:, None]], dim=1)  # (5, 2D + 1)
        order = np.random.RandomState(seed)  # SentEval's generator, so the same batches
        optimiser = Adam([layer], fused=True)
        best: tuple[float, torch.Tensor] | None = None
        epoch = worse = 0
        while worse < WORSE_CHECKS and epoch <= MOST_EPOCHS:
            for _ in range(CHECK_EVERY):
                _epoch(layer, optimiser, x, y, torch.from_numpy(order.permutation(len(x))))
            epoch += CHECK_EVERY
            r = pearson(_expected(layer, dev_x), dev.labels)
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
    """Train for one epoch; the gradient of softmax and squared error is explicit, for speed."""
    for rows in torch.split(order, BATCH):
        inputs, targets = x[rows], y[rows]
        shares = torch.softmax(inputs @ layer.T, dim=1)  # (64, 5)
        error = (shares - targets) * (2.0 / targets.numel())
        pull = shares * (error - (error * shares).sum(dim=1, keepdim=True))
        layer.grad = pull.T @ inputs
        optimiser.step()


def _expected(layer: torch.Tensor, x: torch.Tensor) -> NDArray[np.float64]:
    """Return the expected class of each pair in float64, since in float32 equal pairs differ in the last bits."""
    classes = torch.arange(1, CLASSES + 1, dtype=torch.float64)
    weights = layer.double().T
    parts = [torch.softmax(part.double() @ weights, dim=1) @ classes for part in torch.split(x, 1024)]
    expected: NDArray[np.float64] = finite(torch.cat(parts)).numpy()
    return expected


def _features(examples: Inputs) -> torch.Tensor:
    """Return (N, 2D + 1) float32: the features, and a one for the bias; raise SemanticsError on overflow."""
    return finite(torch.cat([examples.batch(slice(None)), torch.ones(len(examples), 1)], dim=1))


def _targets(gold: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return (N, 5) targets, each score over its neighbouring classes (Tai, Socher & Manning 2015, equation 15)."""
    floor = np.floor(gold)
    classes = np.arange(1, CLASSES + 1)
    above = (classes == floor[:, None] + 1) * (gold - floor)[:, None]
    below = (classes == floor[:, None]) * (floor - gold + 1)[:, None]
    targets: NDArray[np.float32] = (above + below).astype(np.float32)
    return targets


SIZES = (2, 4)
"""Characters of the shortest and of the longest n-grams."""


class TfIdf:
    """Sentences as sparse vectors: a number for each n-gram of 2 to 4 characters.

    The number is the count of the n-gram in the sentence times its weight, ``log((N + 1) / (n + 1))``, where n of the N
    training captions have the n-gram (Spärck Jones 1972, smoothed). A space stands before and behind each text; case is
    kept, and any white space is one space. SemanticsError without a caption.
    """

    def __init__(self, captions: Iterable[str], *, progress: bool = False) -> None:
        self._captions, self._progress = list(captions), progress
        if not self._captions:
            raise SemanticsError("there are no captions to count n-grams in")

    def prepare(self, sentences: Sequence[str]) -> None:
        """Compute the vectors of all sentences that :meth:`cosines` compares."""
        from scipy import sparse

        distinct = sorted(set(sentences))
        self._row = {sentence: row for row, sentence in enumerate(distinct)}
        counts = [Counter(_ngrams(sentence)) for sentence in distinct]
        # N-grams of the captions alone are in no cosine.
        columns = {ngram: column for column, ngram in enumerate(sorted(set().union(*counts)))}
        having = np.zeros(len(columns), np.int64)
        for caption in tqdm(self._captions, "counting", unit="caption", disable=None if self._progress else True):
            having[[columns[ngram] for ngram in columns.keys() & _ngrams(caption)]] += 1
        weights = np.log((len(self._captions) + 1) / (having + 1))
        ends = np.cumsum([0, *map(len, counts)])
        places = np.fromiter((columns[ngram] for row in counts for ngram in sorted(row)), np.int64, ends[-1])
        values = np.fromiter((row[ngram] for row in counts for ngram in sorted(row)), np.int64, ends[-1])
        self._vectors = sparse.csr_array((values * weights[places], places, ends), (len(counts), len(columns)))

    def vectors(self, sentences: Sequence[str]) -> Any:
        """Return the sparse (N, n-grams) vectors of N prepared sentences."""
        return self._vectors[[self._row[sentence] for sentence in sentences]]

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
        """Return the (N,) cosines of N pairs of prepared sentences; 0 for a sentence without an n-gram."""
        a, b = self.vectors(first), self.vectors(second)
        dots, one, other = ((x * y).sum(axis=1) for x, y in ((a, b), (a, a), (b, b)))
        norms = np.sqrt(one * other)
        cosines: NDArray[np.float64] = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0)
        return cosines


def _ngrams(text: str) -> Iterator[str]:
    framed = f" {' '.join(text.split())} " if text.strip() else ""
    for size in range(SIZES[0], SIZES[1] + 1):
        for start in range(len(framed) - size + 1):
            yield framed[start : start + size]
