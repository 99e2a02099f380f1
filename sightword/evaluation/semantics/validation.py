"""SentEval's three protocols for classifiers on vectors: nested folds, folds with a test set, and a split.

They follow facebookresearch/SentEval, commit 5d6dc117 (``senteval/tools/validation.py``), including its rounding: the
accuracies that select the regularisation are rounded to two decimals, and the first of equal ones wins. scikit-learn
draws the folds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classification_data import ClassificationTask, Labelled
from sightword.evaluation.semantics.classifier import HELD_OUT, AdamRegression, Labels, accuracy
from sightword.evaluation.semantics.encoding import Embeddings
from sightword.evaluation.semantics.inputs import Inputs, inputs_of
from sightword.messages import plural
from sightword.statistics.inference import proportion_interval

NESTED_SEED = 1111
"""The seed of nested folds, independent of the other seeds."""


def classify(
    task: ClassificationTask,
    vectors: Embeddings,
    *,
    kfold: int = 5,
    seed: int = 1111,
    progress: bool = False,
) -> dict[str, Any]:
    """Evaluate vectors by a logistic regression on them that predicts the classes of a task.

    ``seed`` draws the first weights, the batches, and the folds of a task with a test set (nested folds have a fixed
    seed). The result has ``accuracy``, its 95 % interval ``accuracy_ci95``
    (:func:`sightword.statistics.inference.proportion_interval`) and ``dev_accuracy`` in percent,
    for MRPC also ``f1`` of the paraphrases in percent, and ``test``, the number of tested examples (for nested folds,
    each example once).

    Raises:
        SemanticsError: a class has too few examples for the folds, or the vectors are too large for a classifier.
    """
    return classified(task, vectors, kfold=kfold, seed=seed, progress=progress)[0]


def classified(
    task: ClassificationTask,
    vectors: Embeddings,
    *,
    kfold: int = 5,
    seed: int = 1111,
    progress: bool = False,
) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    """Return the result of :func:`classify`, and for each tested example, in the task's order, whether it is right."""
    check_folds(task, kfold)

    def inputs(part: Labelled) -> Inputs:
        return inputs_of(vectors, task.features, part.first, part.second, part.labels)

    fits = {"nested": kfold * (kfold + 1), "folds": kfold + 1, "split": 1}[task.protocol]
    with tqdm(total=fits, desc=task.name, unit="fit", disable=None if progress else True) as bar:
        regression = AdamRegression(len(task.classes), seed, lambda epoch: bar.set_postfix(epoch=epoch))
        protocols = _Protocols(regression, kfold, seed, bar.update)
        train, entry = inputs(task.train), {}
        if task.test is None:
            predicted, found, dev_accuracy = protocols.nested(train)
            right = predicted == train.labels
        else:
            test = inputs(task.test)
            if task.dev is None:
                predicted, dev_accuracy = protocols.folds(train, test)
            else:
                predicted, dev_accuracy = protocols.split(train, inputs(task.dev), test, task.regularised)
            right = predicted == test.labels
            found = round(100 * accuracy(predicted, test.labels), 2)
            if task.name == "MRPC":
                from sklearn.metrics import f1_score

                entry["f1"] = round(100 * float(f1_score(test.labels, predicted, zero_division=0.0)), 2)
    tested = len(task.test or task.train)
    interval = proportion_interval(found, tested)
    numbers = {"accuracy": found, "accuracy_ci95": interval, "dev_accuracy": dev_accuracy} | entry | {"test": tested}
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
        found = self._classifier.scan(train, dev, strengths)
        self._done(1)
        scores = [round(100 * score, 2) for score, _ in found]
        best = int(np.argmax(scores))
        return found[best][1].predict(test), scores[best]

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
