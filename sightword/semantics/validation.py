"""SentEval's three protocols for classifiers on vectors: nested folds, folds with a test set, and a split.

They follow facebookresearch/SentEval, commit 5d6dc117 (``senteval/tools/validation.py``), including its rounding: the
accuracies that select the regularisation are rounded to two decimals, and the first of equal ones wins. scikit-learn
draws the folds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.errors import SemanticsError
from sightword.semantics.classification_data import ClassificationTask
from sightword.semantics.classifier import HELD_OUT, AdamRegression, Classifier, Labels, SklearnRegression, accuracy
from sightword.semantics.encoding import Embeddings
from sightword.semantics.inputs import Inputs, inputs_of
from sightword.semantics.settings import ClassifierName
from sightword.semantics.text_files import count
from sightword.statistics import wald_half_width

log = logging.getLogger(__name__)

NESTED_SEED = 1111
"""The seed of nested folds, independent of the other seeds."""


def classify(
    task: ClassificationTask,
    vectors: Embeddings,
    *,
    classifier: ClassifierName = "pytorch",
    kfold: int = 5,
    seed: int = 1111,
    progress: bool = False,
) -> dict[str, Any]:
    """Evaluate vectors by a logistic regression on them that predicts the classes of a task.

    Args:
        task: the task.
        vectors: the vectors of all its sentences.
        classifier: SentEval's own regression by Adam, or scikit-learn's.
        kfold: folds of a task without dev examples.
        seed: the seed of the classifier, and of the folds of a task with a test set.
        progress: show a progress bar on a terminal.

    Returns:
        ``accuracy``, its 95 % half-width ``accuracy_ci95`` (Wald) and ``dev_accuracy`` in percent, for MRPC also ``f1``
        of the paraphrases in percent, and ``test``, the number of tested examples (for nested folds, each example
        once).

    Raises:
        SemanticsError: a class has too few examples for the folds, or the vectors are too large for a classifier.
    """
    check_folds(task, classifier, kfold)
    rounds = kfold if task.protocol == "nested" else 1
    fits = {"nested": rounds * (kfold + 1), "folds": kfold + 1, "split": 1}[task.protocol]
    with tqdm(total=fits, desc=task.name, unit="fit", disable=None if progress else True) as bar:
        regression: AdamRegression | SklearnRegression
        if classifier == "pytorch":
            regression = AdamRegression(len(task.classes), seed, lambda epoch: bar.set_postfix(epoch=epoch))
        else:
            regression = SklearnRegression(seed)
        judge = _Protocols(regression, kfold, seed, bar.update)
        train = inputs_of(task.train, vectors, task.features)
        dev, test = (
            None if part is None else inputs_of(part, vectors, task.features) for part in (task.dev, task.test)
        )
        predicted: Labels | None = None
        if test is None:
            found, dev_accuracy = judge.nested(train)
        else:
            if dev is None:
                predicted, dev_accuracy = judge.folds(train, test)
            else:
                predicted, dev_accuracy = judge.split(train, dev, test, task.regularised)
            found = round(100 * accuracy(predicted, test.labels), 2)
    if isinstance(regression, SklearnRegression) and regression.unfinished:
        log.warning(
            "%s: %d of %d fits of scikit-learn's logistic regression did not converge, and were "
            "used nevertheless, as in SentEval (%s)",
            task.name,
            len(regression.unfinished),
            regression.fits,
            regression.unfinished[0],
        )
    tested = len(train if test is None else test)
    entry: dict[str, Any] = {
        "accuracy": found,
        "accuracy_ci95": wald_half_width(found, tested),
        "dev_accuracy": dev_accuracy,
    }
    if task.name == "MRPC" and test is not None and predicted is not None:
        entry["f1"] = round(100 * _f1(predicted, test.labels), 2)
    return entry | {"test": tested}


def check_folds(task: ClassificationTask, classifier: ClassifierName, kfold: int) -> None:
    """Check, before any encoding, that each class has enough examples for the folds.

    Raises:
        SemanticsError: a class has too few examples.
    """
    if task.protocol == "split":
        return
    counts = np.bincount(task.train.labels, minlength=len(task.classes))
    nested = task.protocol == "nested"
    # A fold takes at most ceil(n / k) of a class's n examples.
    left = [int(n) - math.ceil(n / kfold) if nested else int(n) for n in counts]
    for name, n, rest in zip(task.classes, counts, left, strict=True):
        if rest < kfold:
            raise SemanticsError(
                f"task {task.name}: has {count(int(n), 'example')} of the class {name}",
                where=task.folder,
                expected=f"enough for {kfold} folds{' within each of as many' if nested else ''}",
                todo="Lower semantics.kfold.",
            )
    if classifier == "pytorch" and int(HELD_OUT * sum(left)) == 0:
        raise SemanticsError(
            f"task {task.name}: has {count(len(task.train), 'training example')}",
            where=task.folder,
            expected=f"enough to hold out {HELD_OUT:.0%} of them",
            todo="Set semantics.classifier to sklearn.",
        )


class _Protocols:
    """The three protocols for one classifier."""

    def __init__(self, classifier: Classifier, kfold: int, seed: int, done: Callable[[int], object]) -> None:
        self._classifier = classifier
        self._kfold = kfold
        self._seed = seed
        self._done = done

    def nested(self, examples: Inputs) -> tuple[float, float]:
        """Test each fold once, with the regularisation chosen by folds within the other examples.

        Returns:
            The accuracy and the dev accuracy, as means over the folds.
        """
        dev, test = [], []
        for rest, fold in self._folds(examples, NESTED_SEED):
            train, tested = examples.at(rest), examples.at(fold)
            strength, best = self._chosen(train, self._classifier.grid, NESTED_SEED)
            dev.append(best)
            test.append(round(100 * accuracy(self._final(train, strength, tested), tested.labels), 2))
        return _mean(test), _mean(dev)

    def folds(self, train: Inputs, test: Inputs) -> tuple[Labels, float]:
        """Choose the regularisation by folds of the training examples.

        Returns:
            The class predicted for each test example, and the best accuracy of the folds.
        """
        strength, best = self._chosen(train, self._classifier.grid_in_folds, self._seed)
        return self._final(train, strength, test), best

    def split(self, train: Inputs, dev: Inputs, test: Inputs, regularised: bool) -> tuple[Labels, float]:
        """Choose the regularisation by dev examples.

        SentEval then fits again with the same result, so the first fit is kept.

        Returns:
            The class predicted for each test example, and the best accuracy on dev.
        """
        strengths = self._classifier.grid if regularised else [self._classifier.unregularised]
        found = self._classifier.scan(train, dev, strengths)
        self._done(1)
        scores = [round(100 * score, 2) for score, _ in found]
        best = int(np.argmax(scores))
        return found[best][1].predict(test), scores[best]

    def _chosen(self, train: Inputs, strengths: Sequence[float], seed: int) -> tuple[float, float]:
        """Return the regularisation with the best mean accuracy over folds, and that accuracy."""
        scores = []
        for rest, fold in self._folds(train, seed):
            scores.append([score for score, _ in self._classifier.scan(train.at(rest), train.at(fold), strengths)])
            self._done(1)
        means = [round(100 * np.mean(column), 2) for column in zip(*scores, strict=True)]
        best = int(np.argmax(means))
        return strengths[best], float(means[best])

    def _final(self, train: Inputs, strength: float, test: Inputs) -> Labels:
        predicted = self._classifier.final(train, strength).predict(test)
        self._done(1)
        return predicted

    def _folds(self, examples: Inputs, seed: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(n_splits=self._kfold, shuffle=True, random_state=seed)
        yield from folds.split(np.zeros(len(examples)), examples.labels)


def _mean(percents: Sequence[float]) -> float:
    return float(round(np.mean(percents), 2))


def _f1(predicted: Labels, labels: Labels) -> float:
    """Return the harmonic mean of precision and recall of class 1; 0 if class 1 is neither present nor predicted."""
    both = int((predicted & labels).sum())
    either = int(predicted.sum()) + int(labels.sum())
    return 2 * both / either if either else 0.0
