"""SentEval's default logistic regression, trained by Adam.

It follows facebookresearch/SentEval, commit 5d6dc117 (``senteval/tools/classifier.py``,
``senteval/tools/validation.py``), as this code behaves with today's torch: the cross-entropy is a mean over the batch
(``size_average=False`` is ignored).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.compute.devices import threads
from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classification_data import ClassificationTask, Labelled
from sightword.evaluation.semantics.encoding import Embeddings, Inputs, finite, inputs_of
from sightword.messages import plural
from sightword.statistics.inference import proportion_interval

Labels = NDArray[np.int64]

BATCH = 64
ROUND = 4
"""Epochs between two checks on the dev examples."""
WORSE_CHECKS = 6
"""Training stops at the sixth check without a better accuracy (a tenacity of 5); the count is never reset."""
MOST_EPOCHS = 200
"""A round starts after at most this many epochs, so training ends after 204 epochs at most."""
HELD_OUT = 0.05
"""The share of the training examples that selects the weights in the absence of dev examples."""

_RATE, _MEAN, _SQUARE, _SMALL = 1e-3, 0.9, 0.999, 1e-8  # Adam's defaults
_ROWS = 1024  # examples whose classes are predicted together


def accuracy(predicted: Labels, labels: Labels) -> float:
    """Return the share of N examples with the correct class."""
    return int((predicted == labels).sum()) / len(labels)


@dataclass(frozen=True)
class Layer:
    """One linear layer, with its weight (classes, width) and its bias (classes,)."""

    weight: torch.Tensor
    bias: torch.Tensor

    def predict(self, examples: Inputs) -> Labels:
        """Return the (N,) classes of N examples."""
        with threads(1):
            starts = range(0, len(examples), _ROWS)
            labels = [_answers(examples, start, self.weight, self.bias).argmax(1) for start in starts]
        predicted: Labels = torch.cat(labels).numpy()
        return predicted


@dataclass
class AdamRegression:
    """SentEval's default: a linear layer and a softmax, Adam, weight decay, early stopping on dev.

    Fits with different weight decays use the same batches in the same order, so they are trained together on one copy
    of each batch; each fit stops by its own dev accuracy. The fits always run in one CPU thread, so that the result
    does not depend on the machine's settings.
    """

    classes: int
    seed: int = 1111
    on_round: Callable[[int], None] = lambda _: None
    """Called with the number of finished epochs."""
    grid: Sequence[float] = (1e-5, 1e-4, 1e-3, 1e-2)
    """The regularisations to choose from."""
    unregularised: float = 1e-9
    """The regularisation for SNLI."""

    def scan(
        self, train: Inputs, dev: Inputs, strengths: Sequence[float], order: np.random.RandomState | None = None
    ) -> list[tuple[float, Layer]]:
        """Return for each weight decay the best accuracy on dev, 0 to 1, and the layer with that accuracy.

        ``order`` draws the batches, by default a new generator with the seed. SemanticsError if the outputs overflow.
        """
        order = order or np.random.RandomState(self.seed)
        with threads(1), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            start = torch.nn.Linear(train.width, self.classes)
            fits = _Fits(start.weight.detach(), start.bias.detach(), strengths)
            best: dict[int, tuple[int, Layer]] = {}
            worse = dict.fromkeys(range(len(strengths)), 0)
            epoch = 0
            while fits.alive and epoch <= MOST_EPOCHS:
                for _ in range(ROUND):
                    fits.learn(train, order.permutation(len(train)))
                epoch += ROUND
                for fit, right in zip(list(fits.alive), fits.right(dev), strict=True):
                    if fit not in best or right > best[fit][0]:
                        best[fit] = right, fits.layer(fit)
                    else:
                        worse[fit] += 1
                fits.keep([fit for fit in fits.alive if worse[fit] < WORSE_CHECKS])
                self.on_round(epoch)
        return [(right / len(dev), layer) for _, (right, layer) in sorted(best.items())]

    def final(self, train: Inputs, strength: float) -> Layer:
        """Fit with the first twentieth of a random order held out as dev examples; raise as :meth:`scan`."""
        order = np.random.RandomState(self.seed)  # the same generator then draws the batches
        shuffled = order.permutation(len(train))
        cut = int(HELD_OUT * len(train))
        ((_, fitted),) = self.scan(train.at(shuffled[cut:]), train.at(shuffled[:cut]), [strength], order)
        return fitted


class _Fits:
    """R linear layers of C classes that train together on the same batches, with explicit gradients."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, strengths: Sequence[float]) -> None:
        self.alive = list(range(len(strengths)))
        """The numbers of the remaining fits among R."""
        self._classes = len(bias)
        self._steps = 0
        decay = torch.tensor(strengths, dtype=torch.float32).repeat_interleave(self._classes)
        # Weights (RC, W) and biases (RC,), each with Adam's two moments of the gradient and the decay.
        self._states = [
            (start, torch.zeros_like(start), torch.zeros_like(start), decays)
            for start, decays in (
                (weight.repeat(len(strengths), 1), decay[:, None]),
                (bias.repeat(len(strengths)), decay),
            )
        ]

    def learn(self, train: Inputs, order: NDArray[np.int64]) -> None:
        """Train for one epoch."""
        weight, bias = (value for value, *_ in self._states)
        chosen = torch.nn.functional.one_hot(torch.from_numpy(train.labels), self._classes).float()
        for start in range(0, len(order), BATCH):
            index = order[start : start + BATCH]
            inputs = train.batch(index)  # (B, W)
            answers = torch.addmm(bias, inputs, weight.T).view(len(index), -1, self._classes)  # (B, R, C)
            pull = torch.softmax(answers, dim=2)
            pull -= chosen[torch.from_numpy(index)][:, None]
            pull /= len(index)
            error = pull.view(len(index), -1)
            self._step(error.T @ inputs, error.sum(0))

    def _step(self, *gradients: torch.Tensor) -> None:
        """Take one step of Adam, with the weight decay in the gradient."""
        self._steps += 1
        size = _RATE / (1 - _MEAN**self._steps)
        scale = (1 - _SQUARE**self._steps) ** 0.5
        for (value, mean, square, decay), gradient in zip(self._states, gradients, strict=True):
            gradient.addcmul_(value, decay)
            mean.lerp_(gradient, 1 - _MEAN)
            square.mul_(_SQUARE).addcmul_(gradient, gradient, value=1 - _SQUARE)
            value.addcdiv_(mean, square.sqrt().div_(scale).add_(_SMALL), value=-size)

    def right(self, dev: Inputs) -> list[int]:
        """Return the number of correct dev examples of each remaining fit."""
        weight, bias = (value for value, *_ in self._states)
        right = torch.zeros(len(self.alive), dtype=torch.int64)
        for start in range(0, len(dev), _ROWS):
            answers = _answers(dev, start, weight, bias)
            predicted = answers.view(len(answers), -1, self._classes).argmax(2)  # (B, R)
            right += (predicted == torch.from_numpy(dev.labels[start : start + _ROWS])[:, None]).sum(0)
        return [int(count) for count in right]

    def layer(self, fit: int) -> Layer:
        """Return a copy of the current weights of a fit."""
        weight, bias = (value[self._places([fit])] for value, *_ in self._states)
        return Layer(weight, bias)

    def keep(self, fits: list[int]) -> None:
        """Continue with only these fits."""
        if fits != self.alive:
            places = self._places(fits)
            self._states = [
                (value[places], mean[places], square[places], decay[places])
                for value, mean, square, decay in self._states
            ]
            self.alive = fits

    def _places(self, fits: list[int]) -> torch.Tensor:
        first = torch.tensor([self.alive.index(fit) * self._classes for fit in fits], dtype=torch.int64)
        return (first[:, None] + torch.arange(self._classes)).flatten()


def _answers(examples: Inputs, start: int, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return finite(torch.addmm(bias, examples.batch(slice(start, start + _ROWS)), weight.T))


NESTED_SEED = 1111
"""The seed of nested folds, independent of the other seeds."""


def classify(
    task: ClassificationTask,
    vectors: Embeddings,
    *,
    kfold: int = 5,
    seed: int = 1111,
    progress: bool = False,
) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    """Evaluate vectors by a logistic regression on them that predicts the classes of a task.

    ``seed`` draws the first weights, the batches, and the folds of a task with a test set (nested folds have a fixed
    seed). SemanticsError if a class has too few examples for the folds, or the vectors are too large for a classifier.

    Returns:
        ``accuracy`` with ``accuracy_ci95`` and ``dev_accuracy`` in percent, for MRPC also ``f1`` of the paraphrases,
        and ``test``, the number of tested examples; and for each of these, in the task's order, whether it is right.
    """
    check_folds(task, kfold)

    def inputs(part: Labelled) -> Inputs:
        return inputs_of(vectors, task.features, part.first, part.second, part.labels)

    fits = {"nested": kfold * (kfold + 1), "folds": kfold + 1, "split": 1}[task.protocol]
    with tqdm(total=fits, desc=task.name, unit="fit", disable=None if progress else True) as bar:
        regression = AdamRegression(len(task.classes), seed, lambda epoch: bar.set_postfix(epoch=epoch))
        protocols = _Protocols(regression, kfold, seed, bar.update)
        train, entry = inputs(task.train), {}
        if task.test is None:
            predicted, share, dev_accuracy = protocols.nested(train)
            right = predicted == train.labels
        else:
            test = inputs(task.test)
            if task.dev is None:
                predicted, dev_accuracy = protocols.folds(train, test)
            else:
                predicted, dev_accuracy = protocols.split(train, inputs(task.dev), test, task.regularised)
            right = predicted == test.labels
            share = round(100 * accuracy(predicted, test.labels), 2)
            if task.name == "MRPC":
                from sklearn.metrics import f1_score

                entry["f1"] = round(100 * float(f1_score(test.labels, predicted, zero_division=0.0)), 2)
    tested = len(task.test or task.train)
    interval = proportion_interval(share, tested)
    numbers = {"accuracy": share, "accuracy_ci95": interval, "dev_accuracy": dev_accuracy} | entry | {"test": tested}
    return numbers, right


def check_folds(task: ClassificationTask, kfold: int) -> None:
    """Raise SemanticsError, before any encoding, if a class has too few examples for the folds."""
    if task.protocol == "split":
        return
    counts = np.bincount(task.train.labels, minlength=len(task.classes))
    nested = task.protocol == "nested"
    # A fold takes at most ceil(n / k) of a class's n examples.
    left = [int(n) - math.ceil(n / kfold) if nested else int(n) for n in counts]
    for name, n, rest in zip(task.classes, counts, left, strict=True):
        if rest < kfold:
            what = f"task {task.name}: has {plural(int(n), 'example')} of the class {name}"
            expected = f"enough for {kfold} folds{' within each of as many' if nested else ''}"
            raise SemanticsError(what, where=task.folder, expected=expected, todo="Lower semantics.kfold.")
    if int(HELD_OUT * sum(left)) == 0:
        what = f"task {task.name}: has {plural(len(task.train), 'training example')}"
        expected = f"enough to hold out {HELD_OUT:.0%} of them"
        raise SemanticsError(what, where=task.folder, expected=expected, todo="Leave the task out.")


class _Protocols:
    """The three protocols for one classifier; ``done`` is called after each fit."""

    def __init__(self, classifier: AdamRegression, kfold: int, seed: int, done: Callable[[int], object]) -> None:
        self._classifier, self._kfold, self._seed, self._done = classifier, kfold, seed, done

    def nested(self, examples: Inputs) -> tuple[Labels, float, float]:
        """Test each fold once, with the regularisation chosen within the others.

        Return the classes of all examples, and the means of the test and of the dev accuracies.
        """
        dev, test, predicted = [], [], np.empty(len(examples), np.int64)
        for train, index in self._folds(examples, NESTED_SEED):
            strength, best = self._chosen(train, self._classifier.grid, NESTED_SEED)
            dev.append(best)
            tested = examples.at(index)
            predicted[index] = self._final(train, strength, tested)
            test.append(round(100 * accuracy(predicted[index], tested.labels), 2))
        return predicted, _mean(test), _mean(dev)

    def folds(self, train: Inputs, test: Inputs) -> tuple[Labels, float]:
        """Choose by folds of the training examples; return the classes of the test examples, and the best accuracy."""
        strength, best = self._chosen(train, self._classifier.grid, self._seed)
        return self._final(train, strength, test), best

    def split(self, train: Inputs, dev: Inputs, test: Inputs, regularised: bool) -> tuple[Labels, float]:
        """Choose by dev examples (SentEval then fits again, with the same result); return as :meth:`folds`."""
        strengths = self._classifier.grid if regularised else [self._classifier.unregularised]
        accuracies = self._classifier.scan(train, dev, strengths)
        self._done(1)
        scores = [round(100 * score, 2) for score, _ in accuracies]
        best = int(np.argmax(scores))
        return accuracies[best][1].predict(test), scores[best]

    def _chosen(self, train: Inputs, strengths: Sequence[float], seed: int) -> tuple[float, float]:
        """Return the regularisation with the best mean accuracy over folds, and that accuracy."""
        scores = []
        for rest, index in self._folds(train, seed):
            scores.append([score for score, _ in self._classifier.scan(rest, train.at(index), strengths)])
            self._done(1)
        means = [float(round(100 * np.mean(column), 2)) for column in zip(*scores, strict=True)]
        best = int(np.argmax(means))
        return strengths[best], means[best]

    def _final(self, train: Inputs, strength: float, test: Inputs) -> Labels:
        predicted = self._classifier.final(train, strength).predict(test)
        self._done(1)
        return predicted

    def _folds(self, examples: Inputs, seed: int) -> Iterator[tuple[Inputs, NDArray[np.int64]]]:
        """Yield the training examples of each fold, and the numbers of the fold's own examples."""
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(n_splits=self._kfold, shuffle=True, random_state=seed)
        for rest, fold in folds.split(np.zeros(len(examples)), examples.labels):
            yield examples.at(rest), fold


def _mean(percents: Sequence[float]) -> float:
    return float(round(np.mean(percents), 2))
