"""The training run of the encoder: batches, loss, validation on dev, the best weights, and the checkpoint."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from sightword.compute.devices import move
from sightword.entailment.training.batches import EncodedPairs, Rows, batches
from sightword.entailment.training.energies import pair_energies
from sightword.entailment.training.losses import margin_loss, torch_energies
from sightword.entailment.training.prefixes import embed, fits
from sightword.entailment.training.settings import EntailSettings
from sightword.errors import TrainingError
from sightword.evaluation.binary.threshold import best_threshold
from sightword.messages import flat
from sightword.model.embedding import embed_captions
from sightword.model.encoders import CaptionEncoder, Encoders
from sightword.model.shape import RecurrentShape
from sightword.training.checkpoint import SECONDS, Checkpoint, part, restore
from sightword.training.checkpoint import Progress as Saved
from sightword.training.initialisation import initialise

log = logging.getLogger(__name__)

POINTS = 20
"""Batches whose mean loss is one point of the curve."""


@dataclass
class Progress:
    """The progress of a training run."""

    epoch: int = 0
    """Number of epochs done."""
    batches: int = 0
    """Number of batches done, in all epochs."""
    loss: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, mean loss of a batch since the point before)."""
    dev: list[tuple[int, float]] = field(default_factory=list)
    """(batches done, accuracy on dev in percent)."""
    best: float = -1.0
    """The best accuracy on dev."""
    best_batch: int = 0
    """Batches done at the best accuracy."""
    threshold: float = 0.0
    """The threshold with the best accuracy on dev, for the best weights."""


def shape_of(settings: EntailSettings) -> RecurrentShape:
    """Return the shape of the network, as a saved encoder keeps it."""
    return RecurrentShape(
        embedding=settings.embedding,
        hidden=settings.hidden,
        cell=settings.cell,
        bidirectional=settings.bidirectional,
        pooling=settings.pooling,
        attention=settings.attention if settings.pooling == "attention" else 0,
        similarity="order" if settings.energy == "order" else "cosine",
        scaled=settings.normalise == "l2" or settings.energy == "symmetric",
    )


def build(settings: EntailSettings, tokens: int) -> CaptionEncoder:
    """Return a new network with initial weights drawn from torch's generator."""
    encoders = Encoders(tokens, 1, shape_of(settings))  # the rules of initialisation draw for both sides
    initialise(encoders, settings.initialisation)
    return encoders.captions


def train(
    settings: EntailSettings,
    training: EncodedPairs,
    dev: EncodedPairs,
    *,
    tokens: int,
    device: torch.device,
    checkpoint: Checkpoint | None = None,
    progress: bool = False,
) -> tuple[CaptionEncoder, Progress]:
    """Train the encoder of both sentences (Vendrov et al. 2016, sections 5.1 and 5.3).

    Args:
        settings: the parameters.
        training: the pairs to learn from.
        dev: the pairs that choose weights and threshold.
        tokens: number of ids, padding and unknown included.
        device: the device to work on.
        checkpoint: the place to save the state in once a minute, and to resume from.
        progress: show progress bars on a terminal.

    Returns:
        The network with the best accuracy on dev, the first of several, and the curves.

    Raises:
        TrainingError: the loss or an embedding of dev is not finite.
    """
    run = Run(settings, training, dev, tokens, device, checkpoint)
    run.resume()
    while run.progress.epoch < settings.epochs:
        run.epoch(bar=progress)
    run.captions.load_state_dict(run.best)
    always = 100.0 * max(float(dev.entailed.mean()), 1.0 - float(dev.entailed.mean()))
    if run.progress.best <= always:
        log.warning(
            "entail: the best accuracy on dev (%.2f %%) is that of one answer for all pairs, so the encoder learned "
            "nothing. Look at entail.rate, entail.margin and entail.epochs.",
            run.progress.best,
        )
    return run.captions, run.progress


class Run:
    """A training run in progress: everything that changes during the run."""

    def __init__(
        self,
        settings: EntailSettings,
        training: EncodedPairs,
        dev: EncodedPairs,
        tokens: int,
        device: torch.device,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.settings, self.training, self.dev = settings, training, dev
        self.device, self.checkpoint = device, checkpoint
        torch.manual_seed(settings.seed)
        self.captions = captions = build(settings, tokens).to(device)
        self.embed = partial(embed, captions) if fits(captions) else captions.embed
        self.weights = list(captions.parameters())
        self.optimiser = torch.optim.Adam(self.weights, lr=settings.rate, fused=True)
        self.progress = Progress()
        self.losses: list[torch.Tensor] = []  # of the batches since the last point of the curve
        self.best: dict[str, torch.Tensor] = {}

    def epoch(self, *, bar: bool) -> None:
        """Train on all batches of the next epoch, or on the rest of a begun epoch."""
        settings, now = self.settings, self.progress
        order = batches(
            self.training, size=settings.batch, seed=settings.seed, epoch=now.epoch,
            group_premises=settings.group_premises,
        )  # fmt: skip
        first, total = now.epoch * len(order), settings.epochs * len(order)
        self.captions.train()
        saved = time.monotonic()
        for step in tqdm(
            range(now.batches - first, len(order)), desc=f"epoch {now.epoch + 1}/{settings.epochs}", unit="batch",
            initial=now.batches - first, total=len(order), leave=False, disable=None if bar else True,
        ):  # fmt: skip
            self.losses.append(self.step(order[step]))
            now.batches += 1
            validate = now.batches % settings.validate_every == 0 or now.batches == total
            save = self.checkpoint is not None and time.monotonic() - saved >= SECONDS
            if validate or now.batches % POINTS == 0:
                self.read_losses()
            if validate:
                self.validate()
            if save:
                self.save()
                saved = time.monotonic()
        now.epoch += 1

    def step(self, rows: Rows) -> torch.Tensor:
        """Train on one batch, and return its loss, a scalar on the device: nothing here waits for it.

        Each different sentence of the batch is encoded once, premise or hypothesis.
        """
        settings, device = self.settings, self.device
        both = np.concatenate([self.training.premises[rows], self.training.hypotheses[rows]])
        places, inverse = np.unique(both, return_inverse=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
            vectors = self.embed([self.training.sentences[place] for place in places])
        premises, hypotheses = move(torch.from_numpy(inverse), device).view(2, -1)
        energies = torch_energies(settings.energy, vectors[premises], vectors[hypotheses])
        entailed = move(torch.from_numpy(self.training.entailed[rows]), device)
        loss = margin_loss(energies, entailed, margin=settings.margin, reduction=settings.reduction)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no type
        if settings.clip is not None:
            clip_grad_norm_(self.weights, settings.clip)
        self.optimiser.step()
        return loss.detach()

    def read_losses(self) -> None:
        """Add a point to the curve of losses.

        Raises:
            TrainingError: a loss is not finite.
        """
        now = self.progress
        mean = float(torch.stack(self.losses).double().mean())
        if not math.isfinite(mean):
            raise TrainingError(
                f"the loss is not a finite number between batch {now.batches - len(self.losses)} and {now.batches}",
                todo="Lower entail.rate, or look at entail.clip and entail.margin.",
            )
        now.loss.append((now.batches, mean))
        self.losses = []

    def validate(self) -> None:
        """Measure the accuracy on dev with the threshold that suits dev best, and keep the best weights.

        Raises:
            TrainingError: an embedding is not finite.
        """
        now, dev = self.progress, self.dev
        vectors = embed_captions(self.captions, dev.sentences)
        energies = pair_energies(self.settings.energy, vectors[dev.premises], vectors[dev.hypotheses])
        if not math.isfinite(energies.sum()):
            raise TrainingError(f"embeddings of dev are not finite at batch {now.batches}", todo="Lower entail.rate.")
        threshold, accuracy = best_threshold(energies, dev.entailed)
        now.dev.append((now.batches, accuracy))
        if accuracy > now.best:
            now.best, now.best_batch, now.threshold = accuracy, now.batches, threshold
            self.best = {name: value.clone() for name, value in self.captions.state_dict().items()}

    def save(self) -> None:
        """Write a checkpoint of the whole state, to resume to the bit."""
        assert self.checkpoint is not None
        state = {
            "captions": self.captions.state_dict(),
            "optimiser": self.optimiser.state_dict()["state"],
            "best": self.best,
            "losses": dict(enumerate(self.losses)),
        }
        now = self.progress
        self.checkpoint.save(Saved(now.epoch, now.batches, {"progress": [dataclasses.asdict(now)]}), flat(state))

    def resume(self) -> None:
        """Continue where an earlier process was killed."""
        found = self.checkpoint.load() if self.checkpoint else None
        if found is None:
            return
        saved, tensors = found

        self.progress = now = Progress(**saved.history["progress"][0])
        for curve in (now.loss, now.dev):
            curve[:] = [(int(done), value) for done, value in curve]
        self.captions.load_state_dict(part(tensors, "captions."))
        restore(self.optimiser, part(tensors, "optimiser."))
        self.best = {name: value.to(self.device) for name, value in part(tensors, "best.").items()}
        losses = part(tensors, "losses.")
        self.losses = [losses[str(number)].to(self.device) for number in range(len(losses))]
        log.info("entail: goes on after epoch %d, batch %d, of an earlier run", now.epoch, now.batches)
