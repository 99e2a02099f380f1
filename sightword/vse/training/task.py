"""The training run of both encoders: batches of captions and pictures, learning rate, and recall on dev."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sightword.compute.devices import move
from sightword.compute.optimisers import Adam, AdamW
from sightword.encoder.parts import Part
from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs, first_copies
from sightword.model.encoders import Encoders
from sightword.model.initialisation import initialise
from sightword.training.checkpoint import Checkpoint, Progress, part
from sightword.training.engine import Task, Tensors, run
from sightword.vse.training.averaging import Averaging
from sightword.vse.training.batches import batches, controlled
from sightword.vse.training.beside import Beside
from sightword.vse.training.clipping import clip
from sightword.vse.training.divergence import EPOCHS, Plan, Watch, at_chance, stuck
from sightword.vse.training.objective import Objective
from sightword.vse.training.schedule import learning_rate
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.texts import Texts
from sightword.vse.training.validation import DIRECTIONS, Recall, validate

log = logging.getLogger(__name__)

POINTS = 50
"""Points of an epoch in the curves of loss and learning rate."""


def train(
    settings: TrainSettings,
    training: Pairs,
    dev: Pairs | None,
    *,
    tokens: int,
    device: torch.device,
    start: Part | None = None,
    beside: Pairs | None = None,
    keep: Callable[[int, Encoders], None] = lambda *_: None,
    show: Callable[[Progress], None] = lambda _: None,
    checkpoint: Checkpoint | None = None,
    progress: bool = False,
) -> CaptionTask:
    """Train both encoders (Merkx & Frank 2019, section 3.3).

    Args:
        settings: the parameters; with ``average``, the averaged weights are validated, kept and returned.
        training: the split to learn from.
        dev: the split on which recall is measured; None measures nothing.
        tokens: number of ids, padding and unknown included; all ids of the captions are below it.
        device: the device to work on.
        start: the network of captions whose weights training starts from; the ids are those of its vocabulary. None:
            random weights.
        beside: captions without pictures, with ``beside_batch``.
        keep: called with the epoch and the encoders at each snapshot, once in all of a run that resumes; with 0 and the
            untrained encoders if every epoch is kept.
        show: called with the curves so far before the first epoch, after each epoch, and when a run resumes.
        checkpoint: the place to save the state in, and to resume from.
        progress: show a progress bar on a terminal.

    Returns:
        The finished run: encoders, curves and recall.

    Raises:
        TrainingError: there are too few pictures, or the run diverges (:mod:`sightword.vse.training.divergence`).
    """
    check_sizes(settings, training, beside)
    task = CaptionTask(settings, training, tokens, device, start=start, beside=beside, dev=dev, keep=keep)
    run(task, checkpoint, bar=progress, show=show)
    return task


def check_sizes(settings: TrainSettings, training: Pairs, beside: Pairs | None = None) -> None:
    """Refuse fewer pictures or groups than a batch, before any costly work.

    Raises:
        TrainingError: there are too few pictures.
    """
    if len(training.image_ids) < settings.batch:
        what = f"train.batch = {settings.batch} is more than the {len(training.image_ids)} training pictures"
        expected, todo = "a batch in which no picture is twice", "Choose a smaller train.batch."
        raise TrainingError(what, expected=expected, todo=todo)
    groups = len(beside.image_ids) if beside else 0
    if groups < settings.beside_batch:
        what = f"train.beside_batch = {settings.beside_batch} is more than the {groups} groups of captions beside"
        todo = "Name files of such captions (corpus.beside_files), or choose a smaller train.beside_batch."
        raise TrainingError(what, expected="a batch in which no group is twice", todo=todo)


def build_optimiser(encoders: Encoders, objective: Objective, settings: TrainSettings) -> torch.optim.Optimizer:
    """Return Adam; with weight decay AdamW, which spares biases and the objective's own parameters."""
    if not settings.weight_decay:
        return Adam([*encoders.parameters(), *objective.parameters()], lr=settings.rate_min, fused=True)
    weights = list(encoders.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [*(w for w in weights if w.ndim < 2), *objective.parameters()], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=settings.rate_min, fused=True)


class CaptionTask(Task[TrainSettings]):
    """A training run of captions and pictures in progress: everything that changes during the run."""

    saves = True

    def __init__(
        self, settings: TrainSettings, training: Pairs, tokens: int, device: torch.device, *,
        start: Part | None = None, beside: Pairs | None = None, dev: Pairs | None = None,
        keep: Callable[[int, Encoders], None] = lambda *_: None,
    ) -> None:  # fmt: skip
        self.dev, self.keep = dev, keep
        self.training = training = controlled(training, settings)
        torch.manual_seed(settings.seed)
        encoders = Encoders(
            tokens, training.features.shape[1], settings.shape,
            dropout_states=settings.dropout_states, dropout_features=settings.dropout_features,
        )  # fmt: skip
        initialise(encoders, settings.initialisation)
        if start is not None:
            encoders.captions.load_state_dict(start.captions.state_dict())
        if settings.standardise == "training":
            encoders.images.standardise_by(training.features)
        self.objective = Objective(settings).to(device)
        self.encoders = encoders.to(device)
        self.features = _near(torch.from_numpy(training.features), device)
        self.same_picture = torch.from_numpy(first_copies(training.features)).to(device)
        self.texts = Texts(
            training, seed=settings.seed, second=settings.second_caption, typing_errors=settings.typing_errors
        )
        self.beside = Beside(beside, settings) if beside is not None and settings.beside_batch else None
        self.averaging = Averaging(self.encoders, settings)
        self.watch = Watch(self.encoders, self.objective, explosions=settings.schedule != "range")
        self.settings = settings
        self.plan = self._plan(0)
        each = len(self.plan.order)
        super().__init__(
            settings, steps=settings.epochs * each, every=each, device=device,
            modules=nn.ModuleDict({"encoders": self.encoders, "objective": self.objective}),
            optimiser=build_optimiser(self.encoders, self.objective, settings),
        )  # fmt: skip

    def _plan(self, epoch: int) -> Plan:
        """Return the batches of an epoch, counted from 0, and their learning rates."""
        settings = self.settings
        order = batches(
            self.training, size=settings.batch, bucket=settings.bucket, seed=settings.seed, epoch=epoch,
            captions=settings.captions_per_epoch, last_batch=settings.last_batch, shuffle=settings.shuffle,
        )  # fmt: skip
        first = epoch * len(order)
        rates = [learning_rate(settings, first + step, len(order)) for step in range(len(order))]
        return Plan(epoch, first, order, rates)

    @property
    def recall(self) -> dict[int, Recall]:
        """The recall on dev after each epoch, and before the first one under 0."""
        found: dict[int, Recall] = {}
        for name, points in self.progress.curves["recall"].items():
            direction, _, number = name.rpartition("/")
            for done, value in points:
                found.setdefault(done // self.every, {}).setdefault(direction, {})[number] = value
        return found

    def state(self) -> dict[str, Tensors]:
        """Return the averaged weights, and the losses of the epoch."""
        return {"average": self.averaging.state(), "watch": self.watch.state()}

    def restore(self, state: Tensors) -> None:
        """Restore the state that :meth:`state` returned."""
        self.averaging.restore(part(state, "average."))
        self.watch.restore(part(state, "watch."))

    def step(self, number: int) -> dict[str, torch.Tensor]:
        """Train on batch ``number``; :attr:`watch` has the losses."""
        settings = self.settings
        epoch, place = divmod(number, self.every)
        if epoch != self.plan.epoch:
            self.plan = self._plan(epoch)
        if not place:
            self.watch.begin(anew=settings.loss == "hardest" and epoch == settings.warm_up)
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
        recall = self._measure(self.dev)
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
            self.keep(epoch, self.averaging.result)

    def _end_epoch(self) -> bool:
        """Add an epoch's losses and rates to the curves, and its weights to the average; return if losses are flat."""
        now, plan, losses = self.progress, self.plan, self.watch.losses
        for block in np.array_split(np.arange(len(losses)), min(POINTS, len(losses))):
            last = int(block[-1])
            now.curve("loss", "loss").append((plan.first + last + 1, float(losses[block].mean())))
            now.curve("learning_rate", "learning_rate").append((plan.first + last + 1, plan.rates[last]))
        self.averaging.after_epoch(plan.epoch + 1)
        return self.objective.flat(losses, np.array([len(rows) for rows in plan.order]), epoch=plan.epoch)

    def _measure(self, dev: Pairs) -> Recall:
        """Return recall on dev, and add it to the curves."""
        recall = validate(self.averaging.result, dev, self.settings.similarity)
        for direction, values in recall.items():
            for name, value in values.items():
                self.progress.add("recall", f"{direction}/{name}", value)
        return recall

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
        epoch, optimiser = number // self.every, self.optimiser
        assert optimiser is not None
        for group in optimiser.param_groups:
            group["lr"] = rate
        places = torch.from_numpy(self.training.image_of_caption[rows])  # (B,)
        pictures = move(places, device)
        texts = self.texts.of(rows, number)  # the captions, and perhaps the second ones, (B,) each
        paired = len(texts)
        if self.beside:
            texts += self.beside.of(self.beside.rows(number), number)
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
            steps = max(len(text) for each in texts for text in each)
            embedded = encoders.captions.embed([text for each in texts for text in each], steps=steps)
        captions = torch.split(embedded, [len(each) for each in texts])  # (B, 2n) each
        near = self.features.device == pictures.device
        features = self.features[pictures] if near else move(self.features[places], device)  # (B, D)
        images = encoders.images(features)  # (B, 2n)
        kinds = self.same_picture[pictures]
        same = kinds[:, None] == kinds[None, :]
        loss = self.objective.both(captions[:paired], images, same, epoch=epoch)
        if self.beside:
            loss = loss + self.objective.beside(*captions[paired:], epoch=epoch)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no type
        norms = clip(encoders, settings)
        optimiser.step()
        self.objective.limit()
        self.averaging.after_batch(epoch)
        self.watch.add(loss.detach(), norms)
        return loss.detach()


def _near(features: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the features on the device if they take at most half of its free memory, else where they are."""
    if device.type == "cuda" and 2 * features.nbytes > torch.cuda.mem_get_info(device)[0]:
        log.warning("train: the features do not fit on the GPU beside the training: each batch's are copied there")
        return features
    return features.to(device)
