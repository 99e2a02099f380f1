"""The training run of both encoders: batches of captions and pictures, learning rate, and recall on dev."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from sightword.captions.vocabulary import Vocabulary
from sightword.compute.devices import Adam, move
from sightword.encoder.parts import Part
from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs, first_copies
from sightword.io.files import write_tsv
from sightword.messages import plural
from sightword.model.encoders import Encoders, initialise
from sightword.training.checkpoint import Checkpoint, Progress, part
from sightword.training.engine import Task, Tensors, run, write_table
from sightword.vse.training.batches import Auxiliary, Texts, batches, controlled
from sightword.vse.training.objective import EPOCHS, Objective, Plan, Watch, at_chance, stuck
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import DEPTHS, DIRECTIONS, Recall, frame_of, shape_of, validate

log = logging.getLogger(__name__)

POINTS = 50
"""Points of an epoch in the curves of loss and learning rate."""
WARM_UP = 0.1
"""Share of a run with a cosine in which the learning rate rises."""
STEP_EPOCHS = 15
"""Epochs from one step of the learning rate to the next (VSE++)."""
NAMES = [f"{direction}/r{k}" for direction in DIRECTIONS for k in DEPTHS]
RECALL = ("epoch", *(name.replace("/", "_") for name in NAMES))
"""The columns of ``recall.tsv``."""


@dataclass(frozen=True)
class Data:
    """What a training run learns from."""

    training: Pairs
    dev: Pairs | None
    """The split on which recall is measured; None measures nothing."""
    vocabulary: Vocabulary
    """The tokens of the captions' ids."""
    start: Part | None = None
    """The network of captions whose weights training starts from; the ids are those of its vocabulary."""
    beside: Pairs | None = None
    """Captions without pictures, with ``beside_batch``."""


def train(
    settings: TrainSettings,
    data: Data,
    *,
    device: torch.device,
    keep: Callable[[int, Encoders], None] = lambda *_: None,
    show: Callable[[Progress], None] = lambda _: None,
    checkpoint: Checkpoint | None = None,
    progress: bool = False,
) -> CaptionTask:
    """Train both encoders (Merkx & Frank 2019, section 3.3); return the finished run: encoders, curves and recall.

    Args:
        settings: the parameters.
        data: the captions and pictures.
        device: the device to work on.
        keep: called with the epoch and the encoders at each snapshot, once in all of a run that resumes; with 0 and the
            untrained encoders if every epoch is kept.
        show: called with the curves so far before the first epoch, after each epoch, and when a run resumes.
        checkpoint: the place to save the state in, and to resume from.
        progress: show a progress bar on a terminal.

    Raises:
        TrainingError: there are too few pictures, or the run diverges (:mod:`sightword.vse.training.objective`).
    """
    check_sizes(settings, data)
    task = CaptionTask(settings, data, device, keep=keep)
    run(task, checkpoint, bar=progress, show=show)
    return task


def check_sizes(settings: TrainSettings, data: Data) -> None:
    """Raise the TrainingError of fewer pictures or groups than a batch, before any costly work."""
    pictures, groups = len(data.training.image_ids), len(data.beside.image_ids) if data.beside else 0
    if pictures < (least := settings.batch if settings.last_batch == "drop" else 2):
        what = f"a batch has at least {plural(least, 'picture')}, and training has {pictures}"
        expected = "a batch in which no picture is twice"
        todo = "Choose a smaller train.batch, or add pictures." if pictures > 1 else "Add pictures."
        raise TrainingError(what, expected=expected, todo=todo)
    if groups < settings.beside_batch:
        what = f"train.beside_batch = {settings.beside_batch} is more than the {groups} groups of captions beside"
        todo = "Name files of such captions (corpus.beside_files), or choose a smaller train.beside_batch."
        raise TrainingError(what, expected="a batch in which no group is twice", todo=todo)


class CaptionTask(Task[TrainSettings]):
    """A training run of captions and pictures in progress: everything that changes during the run."""

    saves = True

    def __init__(
        self, settings: TrainSettings, data: Data, device: torch.device, *,
        keep: Callable[[int, Encoders], None] = lambda *_: None,
    ) -> None:  # fmt: skip
        self.dev, self.keep = data.dev, keep
        self.training = training = controlled(data.training, settings)
        torch.manual_seed(settings.seed)
        encoders = Encoders(
            len(data.vocabulary), training.features.shape[1], shape_of(settings, data.vocabulary, frame_of(data.start)),
            dropout_states=settings.dropout_states, dropout_features=settings.dropout_features,
        )  # fmt: skip
        initialise(encoders, settings.initialisation)
        if data.start is not None:
            encoders.captions.load_state_dict(data.start.captions.state_dict())
        if settings.standardise == "training":
            encoders.images.standardise_by(training.features)
        self.objective = Objective(settings).to(device)
        self.encoders = encoders.to(device)
        self.features = _near(torch.from_numpy(training.features), device)
        self.same_picture = torch.from_numpy(first_copies(training.features)).to(device)
        self.texts = Texts(training, settings, data.vocabulary, second=settings.second_caption)
        self.auxiliary = None
        if data.beside is not None and settings.beside_batch:
            self.auxiliary = Auxiliary(data.beside, settings, data.vocabulary)
        self.watch = Watch(self.encoders, self.objective, explosions=settings.schedule != "range")
        self.settings = settings
        self.plan = self._plan(0)
        each = len(self.plan.order)
        weights = [*self.encoders.parameters(), *self.objective.parameters()]
        super().__init__(
            settings, steps=settings.epochs * each, every=each, device=device,
            modules=nn.ModuleDict({"encoders": self.encoders, "objective": self.objective}),
            optimiser=Adam(weights, lr=settings.rate_min, fused=True),
        )  # fmt: skip

    def _plan(self, epoch: int) -> Plan:
        """Return the batches of an epoch, counted from 0, and their learning rates."""
        settings = self.settings
        order = batches(self.training, settings, epoch)
        first = epoch * len(order)
        rates = [learning_rate(settings, first + step, len(order)) for step in range(len(order))]
        return Plan(epoch, first, order, rates)

    @property
    def recall(self) -> dict[int, Recall]:
        """The recall on dev after each epoch, and before the first one under 0."""
        recall: dict[int, Recall] = {}
        for name, points in self.progress.curves["recall"].items():
            direction, _, number = name.rpartition("/")
            for done, value in points:
                recall.setdefault(done // self.every, {}).setdefault(direction, {})[number] = value
        return recall

    def state(self) -> dict[str, Tensors]:
        """Return the losses of the epoch."""
        return {"watch": self.watch.state()}

    def restore(self, state: Tensors) -> None:
        """Restore the state that :meth:`state` returned."""
        self.watch.restore(part(state, "watch."))

    def step(self, number: int) -> dict[str, torch.Tensor]:
        """Train on batch ``number``; :attr:`watch` has the losses."""
        epoch, place = divmod(number, self.every)
        if epoch != self.plan.epoch:
            self.plan = self._plan(epoch)
        if not place:
            self.watch.begin()
        self.learn(self.plan.order[place], self.plan.rates[place], number)
        return {}

    def is_due(self) -> bool:
        """Return whether there are enough losses for a verdict."""
        return self.watch.due

    def judge(self) -> None:
        """Raise the TrainingError of a run that diverges."""
        self.watch.look(self.plan)

    def validate(self) -> None:
        """Measure recall on dev, add to the curves, keep a snapshot, and stop a run that is stuck.

        Raises:
            TrainingError: an embedding is not finite, or training is stuck.
        """
        epoch, settings = self.progress.steps // self.every, self.settings
        flat = self._end_epoch() if epoch else False
        if self.dev is None:
            return
        recall = validate(self.encoders, self.dev, settings.similarity)
        for direction, values in recall.items():
            for name, value in values.items():
                self.progress.add("recall", f"{direction}/{name}", value)
        rank = recall["caption_to_image"]["mean_rank"]
        log.info(
            "epoch %d: %sdev recall@10 %.1f (caption to image) %.1f (image to caption)",
            *(epoch, f"loss {self.progress.last('loss', 'loss'):.4g}, " if epoch else ""),
            *(recall[direction]["r10"] for direction in DIRECTIONS),
        )
        notes = self.progress.notes
        notes["stuck"] = notes.get("stuck", 0) + 1 if flat and at_chance(rank, len(self.dev.image_ids)) else 0
        if notes["stuck"] >= EPOCHS and settings.schedule != "range":  # its first rates are too low to learn
            raise stuck(epoch, rank)
        if settings.snapshots == "epoch" or (epoch and epoch % settings.cycle == 0):
            self.keep(epoch, self.encoders)

    def _end_epoch(self) -> bool:
        """Add an epoch's losses and rates to the curves; return if losses are flat."""
        now, plan, losses = self.progress, self.plan, self.watch.losses
        for block in np.array_split(np.arange(len(losses)), min(POINTS, len(losses))):
            last = int(block[-1])
            now.curve("loss", "loss").append((plan.first + last + 1, float(losses[block].mean())))
            now.curve("learning_rate", "learning_rate").append((plan.first + last + 1, plan.rates[last]))
        return self.objective.flat(losses, np.array([len(rows) for rows in plan.order]))

    def learn(self, rows: npt.NDArray[np.int64], rate: float, number: int) -> torch.Tensor:
        """Train on one batch.

        Args:
            rows: the captions of the batch.
            rate: the learning rate.
            number: number of batches before this one, over the whole run.

        Returns:
            The loss, a scalar on the device: nothing here waits for it.
        """
        settings, encoders, device = self.settings, self.encoders, self.device
        optimiser = self.optimiser
        assert optimiser is not None
        for group in optimiser.param_groups:
            group["lr"] = rate
        places = torch.from_numpy(self.training.image_of_caption[rows])  # (B,)
        pictures = move(places, device)
        texts = self.texts.of(rows, number)  # the captions, and perhaps the second ones, (B,) each
        paired = len(texts)
        if self.auxiliary:
            texts += self.auxiliary.of(number)
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
            embedded = encoders.captions.embed([text for each in texts for text in each])
        captions = torch.split(embedded, [len(each) for each in texts])  # (B, 2n) each
        near = self.features.device == pictures.device
        features = self.features[pictures] if near else move(self.features[places], device)  # (B, D)
        images = encoders.images(features)  # (B, 2n)
        kinds = self.same_picture[pictures]
        same = kinds[:, None] == kinds[None, :]
        loss = self.objective.both(captions[:paired], images, same)
        if self.auxiliary:
            loss = loss + self.objective.beside(*captions[paired:])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no type
        norms = clip(encoders, settings)
        optimiser.step()
        self.objective.limit()
        self.watch.add(loss.detach(), norms)
        return loss.detach()


def _near(features: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the features on the device if they take at most half of its free memory, else where they are."""
    if device.type == "cuda" and 2 * features.nbytes > torch.cuda.mem_get_info(device)[0]:
        log.warning("train: the features do not fit on the GPU beside the training: each batch's are copied there")
        return features
    return features.to(device)


def learning_rate(settings: TrainSettings, step: int, per_epoch: int) -> float:
    """Return the learning rate of the batch after ``step`` batches of the run; an epoch has ``per_epoch`` batches.

    ``schedule: step`` follows VSE++ (Faghri et al. 2018, section 4.2): a constant, multiplied by a factor every
    :data:`STEP_EPOCHS` epochs. ``range`` is the test of Smith (2017), described in Merkx & Frank (2019, section 3.3);
    Smith's rate rises by equal steps, this rate by equal factors, so that each power of ten has as many batches.
    """
    lowest, highest, steps = settings.rate_min, settings.rate_max, settings.epochs * per_epoch
    if settings.schedule == "range":
        return float(lowest * (highest / lowest) ** (step / max(1, steps - 1)))
    if settings.schedule == "cosine":
        return cosine_rate(step, steps, WARM_UP, lowest, highest)
    if settings.schedule == "step":
        return float(highest * settings.step_factor ** (step // per_epoch // STEP_EPOCHS))
    return cyclic_rate(step, settings.cycle * per_epoch, lowest, highest)


def cyclic_rate(step: int, cycle: int, lowest: float, highest: float) -> float:
    """Return the cyclic learning rate of batch ``step``, as in the released code of Merkx & Frank (2019).

    The rate rises from ``lowest`` to ``highest`` in half a cycle of ``cycle`` batches and falls back in the other half,
    along a cosine. (The formula printed in Merkx & Frank 2019, section 3.3, has no minimum at a cycle's end.)
    """
    return (highest - lowest) * 0.5 * (1 + math.cos(math.pi * (1 + 2 * step / cycle))) + lowest


def cosine_rate(step: int, steps: int, warm_up: float, lowest: float, highest: float) -> float:
    """Return the learning rate of batch ``step`` of ``steps``, as CLIP's (Radford et al. 2021, section 2.5).

    The rate rises in proportion to ``highest`` in the share ``warm_up`` of the run, and falls to ``lowest`` along half
    a cosine.
    """
    rising = warm_up * steps
    if step + 1 < rising:
        return highest * (step + 1) / rising
    done = (step - rising) / (steps - rising)
    return lowest + (highest - lowest) * 0.5 * (1 + math.cos(math.pi * max(done, 0.0)))


def clip(encoders: Encoders, settings: TrainSettings) -> torch.Tensor:
    """Clip the gradients of both sides in place; nothing waits for the device.

    A gradient g with the limit l becomes ``g * min(1, l / (|g| + 1e-6))``. ``clip_scope`` decides which weights share
    a norm: all of a ``side`` (Merkx & Frank 2019, released code), ``all`` weights of both sides (VSE++, released
    code), or each ``tensor`` (order-embeddings, released code). The parameters of the objective are never clipped.

    Args:
        encoders: the network after the backward pass.
        settings: scope and limits; without a limit nothing changes.

    Returns:
        float (2,): the norms of the picture side and of the caption side before clipping, in every scope.
    """
    images, captions = (
        [weight for weight in side.parameters() if weight.grad is not None]
        for side in (encoders.images, encoders.captions)
    )
    sides = ((images, settings.clip_images), (captions, settings.clip_captions))
    if settings.clip_scope == "tensor":
        parts = [torch.stack([_shorten([weight], limit) for weight in weights]) for weights, limit in sides]
        return torch.stack([torch.linalg.vector_norm(norms) for norms in parts])
    shared = settings.clip_scope == "all"
    norms = torch.stack([_shorten(weights, None if shared else limit) for weights, limit in sides])
    if shared:
        _shorten([*images, *captions], settings.clip_images)  # both limits are the same: the settings see to it
    return norms


def _shorten(weights: Sequence[torch.nn.Parameter], limit: float | None) -> torch.Tensor:
    """Clip the gradients of some weights together, and return their norm; None leaves them as they are."""
    if limit is None and weights:
        norms = torch._foreach_norm([weight.grad for weight in weights if weight.grad is not None])
        whole: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return whole
    return clip_grad_norm_(weights, math.inf if limit is None else limit)


def write_curves(folder: Path, progress: Progress) -> None:
    """Write ``loss.tsv``, ``learning_rate.tsv`` and ``recall.tsv``; recall has a row for epoch 0 too."""
    curves = progress.curves
    recalls = [[value for _, value in curves.get("recall", {}).get(name, [])] for name in NAMES]
    for name in ("loss", "learning_rate"):
        write_table(folder / f"{name}.tsv", "step", curves.get(name, {name: []}))
    write_tsv(folder / "recall.tsv", RECALL, zip(range(len(recalls[0])), *recalls, strict=True))
