"""Training of the embeddings: exact Adam on the rows in use, and the score on dev."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.compute.devices import threads
from sightword.errors import TrainingError
from sightword.evaluation.binary import best_threshold
from sightword.hypernyms.data.pairs import ConceptPairs, PairSet, corrupt, corruptible
from sightword.hypernyms.settings import EmbedSettings
from sightword.hypernyms.training.energies import ENERGIES, Cone
from sightword.hypernyms.training.optimisers import RESCALE, Adam, BallAdagrad, LazyAdam, poincare, sums
from sightword.training.checkpoint import Checkpoint, Progress, part
from sightword.training.engine import Task, Tensors, Validation, run

log = logging.getLogger(__name__)

Array = NDArray[Any]
EPSILON = 1e-8
"""What Adam adds to the root of the second moment."""


@dataclass(frozen=True)
class Trained:
    """The result of a training run: the weights with the best score on dev."""

    vectors: Array  # (concepts, width), float32
    weights: dict[str, Array]
    progress: Progress
    left_out: int  # training pairs that no false pair can be made of


def train(
    settings: EmbedSettings, training: ConceptPairs, dev: ConceptPairs | None, concepts: int, *,
    checkpoint: Checkpoint | None = None, progress: bool = False,
) -> Trained:  # fmt: skip
    """Train the vectors of all concepts on true pairs; the bytes do not depend on the number of threads.

    The labelled pairs of dev choose weights and threshold; without them the last weights are kept.

    Raises:
        TrainingError: there are fewer pairs than a batch takes, or a loss is not finite.
    """
    with threads(1):
        task = ConceptsTask(settings, training, dev, concepts)
        run(task, checkpoint, bar=progress)
        weights = {name: value.numpy() for name, value in (task.weights() if dev is None else task.best).items()}
        return Trained(weights.pop("vectors"), weights, task.progress, task.left_out)


class ConceptsTask(Task[EmbedSettings]):
    """A training run of concepts in progress."""

    advice = "Lower train.rate, or look at train.margin and train.init."

    def __init__(
        self, settings: EmbedSettings, training: ConceptPairs, dev: ConceptPairs | None, concepts: int
    ) -> None:
        known = PairSet(training.hyponyms, training.hypernyms, concepts)
        filtered = settings.corrupt == "known"
        kept = corruptible(training.hyponyms, training.hypernyms, known) if filtered else training.labels
        self.left_out = int((~kept).sum())
        self.low, self.high = training.hyponyms[kept], training.hypernyms[kept]
        self.half = settings.batch // 2
        if len(self.low) < self.half:
            raise TrainingError(
                f"train.batch = {settings.batch} takes {self.half} true pairs, and {len(self.low)} can be corrupted",
                todo="Choose a smaller train.batch.",
            )
        if self.left_out:
            log.warning("train: %d training pairs that no false pair can be made of are left out", self.left_out)
        self.known = known if filtered else None
        self.dev, self.concepts = dev, concepts
        self.each = -(-len(self.low) // self.half)  # batches of an epoch
        super().__init__(settings, steps=settings.epochs * self.each, every=settings.validate_every)
        self.progress.curves = {"loss": {"loss": []}, "dev": {settings.criterion: []}}
        random = np.random.default_rng([settings.seed, 0])
        self.energy = ENERGIES[settings.energy](settings.dimension, settings.margin, settings.slack)
        self.table = self._table(self.energy.start(concepts, settings.init, random))
        first = self.energy.weights(random)
        self.shared = {name: Adam(value, settings.rate, EPSILON) for name, value in first.items()}
        self.epoch = -1  # none has begun
        self.order: tuple[Array, ...] = ()

    def _table(self, start: Array) -> LazyAdam | BallAdagrad:
        """Return the optimiser of the vectors."""
        rate = self.settings.rate
        if isinstance(self.energy, Cone):
            return BallAdagrad(start, rate, self.energy.inner)
        steps = self.settings.epochs * self.each
        return LazyAdam(start, rate, steps, epsilon=EPSILON, nonnegative=self.energy.nonnegative)

    def begin(self) -> None:
        """Replace the initial vectors of cones by Poincare embeddings; a run that is killed here starts afresh."""
        if isinstance(self.energy, Cone):
            log.info("train: Poincare embeddings, from which cones start")
            random = np.random.default_rng([self.settings.seed, 0, 1])
            points = poincare((self.low, self.high), self.known, self.concepts, self.settings.dimension, random)
            self.table = self._table((RESCALE * points).astype(np.float32))

    def _margin(self, epoch: int) -> float:
        """Return the margin of an epoch, counted from 0."""
        last, half = self.settings.margin, self.settings.epochs // 2
        first = last if self.settings.margin_start is None else self.settings.margin_start
        return first + (last - first) * min(1.0, epoch / half) if half else last

    def step(self, number: int) -> dict[str, float]:
        """Train on batch ``number``.

        An epoch has random numbers of its own, so that a killed run goes on at any batch.
        """
        epoch, place = divmod(number, self.each)
        if epoch != self.epoch:
            self.epoch, self.energy = epoch, dataclasses.replace(self.energy, margin=self._margin(epoch))
            random = np.random.default_rng([self.settings.seed, 1 + epoch])
            order = random.permutation(len(self.low))
            low, high = self.low[order], self.high[order]
            self.order = (low, high, *corrupt(low, high, self.known, self.concepts, random)[:2])
        low, high, false_low, false_high = (side[place * self.half : (place + 1) * self.half] for side in self.order)
        try:
            with np.errstate(over="raise"):
                return {"loss": self.learn(np.append(low, false_low), np.append(high, false_high))}
        except FloatingPointError:  # an infinite moment of a gradient would freeze its row
            return {"loss": np.nan}

    def learn(self, low: Array, high: Array) -> float:
        """Train on some pairs of hyponyms and hypernyms, true pairs first, and return the loss."""
        values = self.table.rows(np.concatenate([low, high]))
        weights = {name: one.values for name, one in self.shared.items()}
        slopes = self.energy.gradients(values[: len(low)], values[len(low) :], weights)
        both = np.append(slopes.rows, len(low) + slopes.rows)
        rows = np.append(low[slopes.rows], high[slopes.rows])
        ids, gradients, places = sums(rows, np.concatenate([slopes.low, slopes.high]))
        self.table.step(ids, gradients, values.take(both[places], axis=0))
        for name, gradient in slopes.weights.items():
            self.shared[name].step(gradient, self.table.done)
        return slopes.loss

    def validate(self) -> Validation | None:
        """Measure the score on dev."""
        if self.dev is None:
            return None
        low, high = self.table.rows(self.dev.hyponyms), self.table.rows(self.dev.hypernyms)
        energies = self.energy.scores(low, high, {name: one.values for name, one in self.shared.items()})
        if not np.isfinite(energies).all():
            raise TrainingError(f"energies of dev are not finite at batch {self.progress.steps}", todo=self.advice)
        threshold, score = best_threshold(energies, self.dev.labels, self.settings.criterion)
        self.progress.add("dev", self.settings.criterion, score)
        return Validation(score, {"threshold": threshold})

    def weights(self) -> Tensors:
        """Return the vectors and the shared weights."""
        shared = {name: torch.from_numpy(one.values) for name, one in self.shared.items()}
        return {"vectors": torch.from_numpy(self.table.rows(slice(None))), **shared}

    def state(self) -> dict[str, Any]:
        """Return the state of all optimisers."""
        optimisers: dict[str, Adam | LazyAdam | BallAdagrad] = {"table": self.table, **self.shared}
        return {
            name: {key: torch.from_numpy(value) for key, value in one.state().items()}
            for name, one in optimisers.items()
        }

    def restore(self, state: Tensors) -> None:
        """Restore the state that :meth:`state` returned."""
        for name, one in {"table": self.table, **self.shared}.items():
            one.restore({key: value.numpy() for key, value in part(state, f"{name}.").items()})
