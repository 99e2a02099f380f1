"""The training loop."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from sightword.compute.devices import move
from sightword.errors import TrainingError
from sightword.features.pairs import Pairs
from sightword.messages import flat
from sightword.model.encoders import Encoders
from sightword.training.checkpoint import SECONDS, Checkpoint, Progress, part, restore
from sightword.training.clipping import clip
from sightword.training.initialisation import initialise
from sightword.training.ranks import ALONE, Ranks
from sightword.training.schedule import learning_rate
from sightword.training.sharing import resumed
from sightword.training.validation import Recall, validate
from sightword.vse.training.averaging import Averaging
from sightword.vse.training.batches import batches
from sightword.vse.training.controls import controlled
from sightword.vse.training.divergence import EPOCHS, Plan, Watch, at_chance, stuck
from sightword.vse.training.objective import Objective
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.texts import Texts

log = logging.getLogger(__name__)

POINTS = 50
"""Points of an epoch in the curves of loss and learning rate."""


@dataclass
class History:
    """The curves of a training run."""

    loss: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, mean loss of a batch since the point before)."""
    rate: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, learning rate of the last of them)."""
    recall: list[tuple[int, Recall]] = field(default_factory=list)
    """(epoch, recall on dev)."""


def train(
    settings: TrainSettings,
    training: Pairs,
    dev: Pairs | None,
    *,
    tokens: int,
    device: torch.device,
    keep: Callable[[int, Encoders], None] = lambda *_: None,
    show: Callable[[History], None] = lambda _: None,
    checkpoint: Checkpoint | None = None,
    progress: bool = False,
    ranks: Ranks = ALONE,
) -> tuple[Encoders, History]:
    """Train both encoders (Merkx & Frank 2019, section 3.3).

    Args:
        settings: the parameters; with ``average``, the averaged weights are validated, kept and returned.
        training: the split to learn from.
        dev: the split on which the first rank measures recall; None in the others.
        tokens: number of ids, padding and unknown included; all ids of the captions are below it.
        device: the device to work on.
        keep: called with the epoch (from 1) and the encoders at each snapshot, once in all processes of a run.
        show: called with the curves so far after each epoch, and when a run resumes.
        checkpoint: the place to save the state in, and to resume from.
        progress: show progress bars on a terminal.
        ranks: this process and the others of the run. Only the first one has a dev split and a checkpoint, keeps
            snapshots and shows curves.

    Returns:
        The encoders after the last epoch, and the curves.

    Raises:
        TrainingError: there are too few pictures, or the run diverges (:mod:`sightword.vse.training.divergence`).
    """
    check_sizes(settings, training, ranks.count)
    run = Run(settings, training, tokens, device, checkpoint, ranks)
    run.resume()
    if run.history.recall:
        show(run.history)
    while run.progress.epoch < settings.epochs:
        run.epoch(bar=progress)
        if dev is None:
            continue
        run.validate(dev)
        if settings.snapshots == "epoch" or run.progress.epoch % settings.cycle == 0:
            keep(run.progress.epoch, run.averaging.result)
        run.save()
        show(run.history)
    return run.averaging.result, run.history


def check_sizes(settings: TrainSettings, training: Pairs, ranks: int = 1) -> None:
    """Refuse a split with fewer pictures than a batch, and more ranks than pairs in a batch, before any costly work.

    Raises:
        TrainingError: there are too few pictures, or too many ranks.
    """
    if ranks > settings.batch:
        what = f"{ranks} processes cannot share batches of {settings.batch} pairs (train.batch)"
        raise TrainingError(what, expected="a pair for each process", todo="Set SIGHTWORD_RANKS to a smaller number.")
    if len(training.image_ids) < settings.batch:
        what = f"train.batch = {settings.batch} is more than the {len(training.image_ids)} training pictures"
        expected, todo = "a batch in which no picture is twice", "Choose a smaller train.batch."
        raise TrainingError(what, expected=expected, todo=todo)


def build_optimiser(encoders: Encoders, objective: Objective, settings: TrainSettings) -> torch.optim.Optimizer:
    """Return Adam; with weight decay AdamW, which spares biases and the objective's own parameters."""
    if not settings.weight_decay:
        return torch.optim.Adam([*encoders.parameters(), *objective.parameters()], lr=settings.rate_min, fused=True)
    weights = list(encoders.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [*(w for w in weights if w.ndim < 2), *objective.parameters()], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.rate_min, fused=True)


class Run:
    """A training run in progress: everything that changes during the run."""

    def __init__(
        self, settings: TrainSettings, training: Pairs, tokens: int, device: torch.device,
        checkpoint: Checkpoint | None, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        self.settings, self.device, self.checkpoint = settings, device, checkpoint
        self.ranks = ranks
        self.training = training = controlled(training, settings)
        torch.manual_seed(settings.seed)
        encoders = Encoders(
            tokens, training.features.shape[1], settings.shape,
            dropout_states=settings.dropout_states, dropout_features=settings.dropout_features,
        )  # fmt: skip
        initialise(encoders, settings.initialisation)
        if settings.standardise == "training":
            encoders.images.standardise_by(training.features)
        self.objective = Objective(settings).to(device)
        self.encoders = encoders.to(device)
        self.features = _near(torch.from_numpy(training.features), device)
        self.same_picture = torch.from_numpy(_distinct(training.features)).to(device)
        self.texts = Texts(training, seed=settings.seed, second=settings.second_caption)
        self.optimiser = build_optimiser(self.encoders, self.objective, settings)
        self.averaging = Averaging(self.encoders, settings)
        self.watch = Watch(self.encoders, self.objective)
        self.history, self.progress = History(), Progress()
        self.flat = False  # whether the losses of the epoch just done are those of equal scores

    def save(self) -> None:
        """Write a checkpoint of the whole state, the random generators included, to resume to the bit."""
        if self.checkpoint is None:
            return
        state = {
            "encoders": self.encoders.state_dict(),
            "objective": self.objective.state_dict(),
            "optimiser": self.optimiser.state_dict()["state"],
            "average": self.averaging.state(),
            "watch": self.watch.state(),
            "random": torch.get_rng_state(),
        }
        if self.device.type == "cuda":
            state["random.cuda"] = torch.cuda.get_rng_state(self.device)
        self.progress.history = asdict(self.history)
        self.checkpoint.save(self.progress, flat(state))

    def resume(self) -> None:
        """Continue where an earlier run was killed, whatever its number of ranks."""
        found = resumed(self.checkpoint.load() if self.checkpoint else None, self.ranks)
        if found is None:
            return
        self.progress, tensors = found
        self.history = History(**{name: [tuple(row) for row in rows] for name, rows in self.progress.history.items()})
        self.encoders.load_state_dict(part(tensors, "encoders."))
        self.objective.load_state_dict(part(tensors, "objective."))
        self.averaging.restore(part(tensors, "average."))
        self.watch.restore(part(tensors, "watch."))
        restore(self.optimiser, part(tensors, "optimiser."))
        torch.set_rng_state(tensors["random"])
        if "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        done = self.progress
        log.info("train: goes on after epoch %d, batch %d, of an earlier run", done.epoch, done.batches)

    def epoch(self, *, bar: bool) -> None:
        """Train on all batches of the next epoch, or on the rest of a begun epoch."""
        settings, epoch = self.settings, self.progress.epoch
        self.encoders.train()
        order = batches(
            self.training, size=settings.batch, bucket=settings.bucket, seed=settings.seed, epoch=epoch,
            captions=settings.captions_per_epoch, last_batch=settings.last_batch, shuffle=settings.shuffle,
        )  # fmt: skip
        first = epoch * len(order)
        rates = [learning_rate(settings, first + step, len(order)) for step in range(len(order))]
        plan = Plan(epoch, first, order, rates)
        left = range(self.progress.batches, len(order))
        if not left.start:
            self.watch.begin(anew=settings.loss == "hardest" and epoch == settings.warm_up)
        saved = time.monotonic()
        for step in tqdm(
            left, desc=f"epoch {epoch + 1}/{settings.epochs}", unit="batch", initial=left.start, total=len(order),
            leave=False, disable=None if bar else True,
        ):  # fmt: skip
            if settings.dropout_states or settings.dropout_features:
                self.ranks.seed(settings.seed, first + step)
            self.step(order[step], rates[step], first + step)
            self.progress.batches = step + 1
            save = self.checkpoint is not None and time.monotonic() - saved >= SECONDS
            if save or self.watch.due or step + 1 == len(order):
                self.watch.look(plan)
            if save:
                self.save()
                saved = time.monotonic()
        losses = self.watch.losses
        for block in np.array_split(np.arange(len(losses)), min(POINTS, len(losses))):
            last = int(block[-1])
            self.history.loss.append((first + last + 1, float(losses[block].mean())))
            self.history.rate.append((first + last + 1, rates[last]))
        self.flat = self.objective.flat(losses, np.array([len(rows) for rows in order]), epoch=epoch)
        self.progress.epoch, self.progress.batches = epoch + 1, 0
        self.averaging.after_epoch(epoch + 1)

    def validate(self, dev: Pairs) -> None:
        """Measure recall on dev after an epoch, and stop a run that is stuck.

        Raises:
            TrainingError: an embedding is not finite, or training is stuck.
        """
        epoch, recall = self.progress.epoch, validate(self.averaging.result, dev, self.settings.similarity)
        self.history.recall.append((epoch, recall))
        captions, images = recall["caption_to_image"], recall["image_to_caption"]
        log.info(
            "epoch %d: loss %.4g, dev recall@10 %.1f (caption to image) %.1f (image to caption)",
            *(epoch, self.history.loss[-1][1], captions["r10"], images["r10"]),
        )
        collapsed = self.flat and at_chance(captions["mean_rank"], len(dev.image_ids))
        self.progress.stuck = self.progress.stuck + 1 if collapsed else 0
        if self.progress.stuck >= EPOCHS:
            raise stuck(epoch, captions["mean_rank"])

    def step(self, rows: npt.NDArray[np.int64], rate: float, number: int) -> torch.Tensor:
        """Train on one batch.

        Args:
            rows: the captions of the batch.
            rate: the learning rate.
            number: number of batches before this one, over the whole run.

        Returns:
            The loss, a scalar on the device: nothing here waits for it.
        """
        settings, encoders, device = self.settings, self.encoders, self.device
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        rows, own = self.ranks.cut(rows)  # own: the share of this rank, (b,) of (B,)
        places = torch.from_numpy(self.training.image_of_caption[rows])  # (B,)
        pictures = move(places, device)
        texts = self.texts.of(rows, number)  # the captions, and perhaps the second ones, (B,) each
        mine = [text for each in texts for text in each[own]]
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
            steps = max(len(text) for each in texts for text in each)
            sides = encoders.captions.embed(mine, steps=steps).chunk(len(texts))  # (b, 2n) each
        near = self.features.device == pictures.device
        features = self.features[pictures[own]] if near else move(self.features[places[own]], device)  # (b, D)
        images = encoders.images(features)  # (b, 2n)
        *captions, images = (self.ranks.gather(side, len(rows)) for side in (*sides, images))  # (B, 2n)
        kinds = self.same_picture[pictures]
        same = kinds[:, None] == kinds[None, :]
        loss = self.objective.both(captions, images, same, epoch=self.progress.epoch)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no type
        self.ranks.add_gradients(encoders.parameters())
        norms = clip(encoders, settings)
        self.optimiser.step()
        self.objective.limit()
        self.averaging.after_batch(self.progress.epoch)
        self.watch.add(loss.detach(), norms)
        return loss.detach()


def _near(features: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the features on the device if they take at most half of its free memory, else where they are."""
    if device.type == "cuda" and 2 * features.nbytes > torch.cuda.mem_get_info(device)[0]:
        log.warning("train: the features do not fit on the GPU beside the training: each batch's are copied there")
        return features
    return features.to(device)


def _distinct(features: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return a number for each picture, the same for pictures with equal features: copies are not mismatches."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(hashlib.sha256(row.data).digest(), len(seen)) for row in features], np.int64)
