"""Training of the embeddings: exact Adam on the rows in use, the best weights on dev, resumable at any moment."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.compute.devices import threads
from sightword.errors import TrainingError
from sightword.evaluation.binary.threshold import best_threshold
from sightword.hypernyms.data.corruption import PairSet, corrupt, corruptible
from sightword.hypernyms.data.pairs import Pairs
from sightword.hypernyms.training.ball import BallAdagrad, poincare, sums
from sightword.hypernyms.training.energies import ENERGIES, Cone
from sightword.hypernyms.training.lazy_adam import Adam, LazyAdam
from sightword.hypernyms.training.settings import EmbedSettings
from sightword.io.files import atomic_file

log = logging.getLogger(__name__)

Array = NDArray[Any]
SECONDS = 60.0
"""From one checkpoint to the next."""
RESCALE = 0.7
"""The factor from Poincare embeddings to the initial vectors of cones (``resc_vecs`` in the code of Ganea et al.)."""


@dataclass
class Progress:
    """How far a training run is, and its curves."""

    batches: int = 0
    """Batches done."""
    best: float = -math.inf
    """The best score on dev so far, in percent."""
    best_batch: int = 0
    threshold: float = 0.0
    """The threshold of the best score."""
    loss_sum: float = 0.0
    """The sum of the losses since the last point of the curves."""
    loss: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, mean loss since the point before)."""
    dev: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, score on dev)."""


@dataclass(frozen=True)
class Trained:
    """The result of a training run: the weights with the best score on dev."""

    vectors: Array
    """(concepts, width), float32."""
    weights: dict[str, Array]
    progress: Progress
    left_out: int
    """Training pairs that no false pair can be made of."""


def train(
    settings: EmbedSettings,
    training: Pairs,
    dev: Pairs | None,
    concepts: int,
    *,
    checkpoint: Path | None = None,
    progress: bool = False,
) -> Trained:
    """Train the vectors of all concepts; the bytes do not depend on the number of threads.

    Args:
        settings: the parameters.
        training: true pairs.
        dev: labelled pairs, which choose weights and threshold; without them the last weights are kept.
        concepts: the number of concepts.
        checkpoint: the file in which the state is saved once a minute, and from which it is taken up.
        progress: show a bar on a terminal.

    Raises:
        TrainingError: there are fewer pairs than a batch takes, none can be corrupted, or a loss is not finite.
    """
    with threads(1):
        return Run(settings, training, dev, concepts, checkpoint).all(bar=progress)


class Run:
    """A training run under way."""

    def __init__(
        self, settings: EmbedSettings, training: Pairs, dev: Pairs | None, concepts: int, checkpoint: Path | None
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
        self.settings, self.dev, self.concepts, self.checkpoint = settings, dev, concepts, checkpoint
        self.each = -(-len(self.low) // self.half)  # batches of an epoch
        random = np.random.default_rng([settings.seed, 0])
        self.energy = ENERGIES[settings.energy](settings.dimension, settings.margin, settings.slack)
        self.table = self._table(self.energy.start(concepts, settings.init, random))
        first = self.energy.weights(random)
        self.shared = {name: Adam(value, settings.rate, settings.epsilon) for name, value in first.items()}
        self.progress = Progress()
        self.best = self._weights()

    def all(self, *, bar: bool) -> Trained:
        """Train to the end."""
        if not self._resume() and isinstance(self.energy, Cone) and self.settings.pretrain:
            self._pretrain()
        saved = time.monotonic()
        total = self.settings.epochs * self.each
        with tqdm(
            total=total, initial=self.progress.batches, unit="batch", leave=False, disable=None if bar else True
        ) as shown:
            while self.progress.batches < total and not self._patience_is_over():
                epoch, start = divmod(self.progress.batches, self.each)
                self.energy = dataclasses.replace(self.energy, margin=self._margin(epoch))
                for ids in self._batches(epoch, start):
                    self._step(ids)
                    done = self.progress.batches
                    if done % self.settings.validate_every == 0 or done == total:
                        self._validate()
                        shown.update(done - shown.n)
                        if self._patience_is_over():
                            break
                    if self.checkpoint is not None and time.monotonic() - saved >= SECONDS:
                        self.save()
                        saved = time.monotonic()
        if self.dev is None:
            self.best = self._weights()
        vectors = self.best.pop("vectors")
        return Trained(vectors, self.best, self.progress, self.left_out)

    def _table(self, start: Array) -> LazyAdam | BallAdagrad:
        """Return the optimiser of the vectors."""
        settings = self.settings
        if isinstance(self.energy, Cone):
            return BallAdagrad(start, settings.rate, self.energy.inner)
        steps = settings.epochs * self.each
        return LazyAdam(start, settings.rate, steps, epsilon=settings.epsilon, nonnegative=self.energy.nonnegative)

    def _pretrain(self) -> None:
        """Replace the initial vectors of cones by Poincare embeddings; a run that is killed here starts afresh.

        Raises:
            TrainingError: an embedding is zero or not finite.
        """
        settings = self.settings
        log.info("train: %d epochs of Poincare embeddings", settings.pretrain_burn_in + settings.pretrain)
        points = poincare(
            (self.low, self.high), self.known, self.concepts, settings.dimension,
            epochs=settings.pretrain, burn_in=settings.pretrain_burn_in, rate=settings.pretrain_rate,
            batch=settings.pretrain_batch, random=np.random.default_rng([settings.seed, 0, 1]),
        )  # fmt: skip
        usable = np.isfinite(points).all(axis=1) & points.any(axis=1)  # a step that overflows ends at zero
        if not usable.all():
            raise TrainingError(
                f"{(~usable).sum()} Poincare embeddings are zero or not finite", todo="Lower train.pretrain_rate."
            )
        self.table = self._table((RESCALE * points).astype(np.float32))
        self.best = self._weights()

    def _patience_is_over(self) -> bool:
        """Return whether dev has not been better for ``train.patience`` validations."""
        wait = self.settings.patience * self.settings.validate_every
        return self.dev is not None and 0 < wait <= self.progress.batches - self.progress.best_batch

    def _margin(self, epoch: int) -> float:
        """Return the margin of an epoch, counted from 0."""
        settings = self.settings
        first = settings.margin if settings.margin_start is None else settings.margin_start
        return first + (settings.margin - first) * min(1.0, epoch / max(1, settings.epochs // 2))

    def _batches(self, epoch: int, start: int) -> list[Array]:
        """Return the batches of an epoch from a place on: hyponyms and hypernyms, (2, 2B), true pairs first.

        An epoch has random numbers of its own, so that a killed run goes on at any batch.
        """
        random = np.random.default_rng([self.settings.seed, 1 + epoch])
        order = random.permutation(len(self.low))
        low, high = self.low[order], self.high[order]
        false_low, false_high, _ = corrupt(low, high, self.known, self.concepts, random)
        return [
            np.stack([np.append(low[cut], false_low[cut]), np.append(high[cut], false_high[cut])])
            for cut in (slice(place * self.half, (place + 1) * self.half) for place in range(start, self.each))
        ]

    def _step(self, ids: Array) -> None:
        """Train on one batch."""
        values = self.table.rows(ids.ravel())
        half = ids.shape[1]
        weights = {name: one.values for name, one in self.shared.items()}
        found = self.energy.gradients(values[:half], values[half:], weights, mean=self.settings.reduction == "mean")
        rows = np.append(ids[0][found.rows], ids[1][found.rows])
        self.table.step(*sums(rows, np.concatenate([found.low, found.high])))
        for name, gradient in found.weights.items():
            self.shared[name].step(gradient, self.table.done)
        self.progress.batches += 1
        self.progress.loss_sum += found.loss

    def _validate(self) -> None:
        """Measure the score on dev, and keep the best weights.

        Raises:
            TrainingError: the loss is not finite.
        """
        now = self.progress
        since = now.batches - (now.loss[-1][0] if now.loss else 0)
        if not math.isfinite(now.loss_sum):
            raise TrainingError(
                f"the loss is not a finite number between batch {now.batches - since} and {now.batches}",
                todo="Lower train.rate, or look at train.margin and train.init.",
            )
        now.loss.append((now.batches, now.loss_sum / since))
        now.loss_sum = 0.0
        if self.dev is None:
            return
        low, high = self.table.rows(self.dev.hyponyms), self.table.rows(self.dev.hypernyms)
        energies = self.energy.scores(low, high, {name: one.values for name, one in self.shared.items()})
        threshold, score = best_threshold(energies, self.dev.labels, self.settings.criterion)
        now.dev.append((now.batches, score))
        if score > now.best:
            now.best, now.best_batch, now.threshold = score, now.batches, threshold
            self.best = self._weights()

    def _weights(self) -> dict[str, Array]:
        """Return a copy of the present vectors and shared weights."""
        shared = {name: one.values.copy() for name, one in self.shared.items()}
        return {"vectors": self.table.rows(slice(None)), **shared}

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        assert self.checkpoint is not None
        tensors = {f"table.{name}": value for name, value in self.table.state().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for name, one in self.shared.items():
            tensors |= {f"shared.{name}.{key}": value for key, value in one.state().items()}
        with atomic_file(self.checkpoint) as path:
            safetensors.numpy.save_file(tensors, path, {"progress": json.dumps(asdict(self.progress))})

    def _resume(self) -> bool:
        """Go on where an earlier process was killed; return whether there was one."""
        if self.checkpoint is None or not self.checkpoint.is_file():
            return False
        try:
            with safetensors.safe_open(self.checkpoint, "numpy") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
                progress = Progress(**json.loads(file.metadata()["progress"]))
        except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
            log.warning("train: the checkpoint is damaged (%s): training starts afresh", error)
            return False
        for curve in (progress.loss, progress.dev):
            curve[:] = [(int(batches), value) for batches, value in curve]
        self.progress = progress
        self.table.restore(_below(tensors, "table."))
        self.best = _below(tensors, "best.")
        for name, one in self.shared.items():
            one.restore(_below(tensors, f"shared.{name}."))
        log.info("train: goes on after batch %d of an earlier run", progress.batches)
        return True


def _below(tensors: dict[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
