"""The objective that the parameters name, its learned scale, and the watch over losses that diverge.

Embeddings have length 1, so a loss is bounded, and an explosion is a return to the loss of a model that gives all pairs
of a batch one score (:meth:`Objective.alike`). Losses are taken as shares of that loss. The mean of the shares of
``LOOK`` successive batches is an explosion when it is at least ``NOTHING`` and either the least mean before was at most
``LEARNED``, or the weights of a side have grown more than ``GROWN``-fold since the beginning. The verdict does not
depend on how often the losses are read or where a run was killed.

With the hardest mismatch, a model that gives all pairs of a batch one score may keep doing so for ever. A run that
learns can have nearly the same losses for ten epochs, so a run is stuck only when for ``EPOCHS`` epochs in a row all
losses are near that loss (:meth:`Objective.flat`) and the mean rank on dev is at chance (:func:`at_chance`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sightword.errors import TrainingError
from sightword.model.encoders import Encoders
from sightword.model.losses import hardest, hinge, infonce
from sightword.model.similarity import scores
from sightword.vse.training.settings import TrainSettings

Numbers = npt.NDArray[np.float64]

TEMPERATURE, LARGEST_SCALE = 0.07, 100.0
"""The initial divisor of scores in InfoNCE, and their largest factor (CLIP, Radford et al. 2021, section 2.5)."""
NEAR = 0.01
"""Largest relative difference between a flat loss and the loss of equal scores."""
LOOK = 50
"""Batches whose losses are read from the device, and judged, together."""
NOTHING, LEARNED, GROWN = 0.9, 0.5, 1000.0
EPOCHS = 5


class Objective(nn.Module):
    """The loss of a minibatch."""

    def __init__(self, settings: TrainSettings) -> None:
        super().__init__()
        self.settings = settings
        self.log_scale = nn.Parameter(torch.tensor(-math.log(TEMPERATURE))) if settings.loss == "infonce" else None

    def forward(self, scores: torch.Tensor, same: torch.Tensor) -> torch.Tensor:
        """Return the loss, a scalar.

        Args:
            scores: similarity of caption i and picture j, float (B, B).
            same: bool (B, B), true where caption i describes picture j as well.
        """
        settings = self.settings
        if self.log_scale is not None:
            return infonce(scores, same, temperature=1 / self.log_scale.exp(), reduction=settings.reduction)
        loss = hardest if settings.loss == "hardest" else hinge
        return loss(scores, same, margin=settings.margin, reduction=settings.reduction)

    @torch.no_grad()
    def limit(self) -> None:
        """Limit a learned scale to :data:`LARGEST_SCALE`; call this after each step of the optimiser.

        A limit within the loss would give a scale above it no gradient: the scale would never come down.
        """
        if self.log_scale is not None:
            self.log_scale.clamp_(max=math.log(LARGEST_SCALE))

    def both(self, captions: Sequence[torch.Tensor], images: torch.Tensor, same: torch.Tensor) -> torch.Tensor:
        """Return the loss of B pictures with one or two captions of each, a scalar.

        The loss is the mean over the captions of their loss with the pictures. With two of each, the caption-caption
        loss is added; without pictures only that loss counts, and the pictures have gradients of zero.

        Args:
            captions: one or two times float (B, D).
            images: float (B, D).
            same: bool (B, B), true where pictures are copies of each other.
        """
        similarity = self.settings.similarity
        losses: list[torch.Tensor] = [self(scores(each, images, similarity), same) for each in captions]
        if len(losses) == 1:
            return losses[0]
        between: torch.Tensor = self(scores(captions[0], captions[1], similarity), same)
        if self.settings.pictures == "none":
            return between + 0 * images.sum()
        return torch.stack(losses).mean() + between

    def beside(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Return the loss of captions without pictures, (B, D), with others of their groups, (B, D)."""
        same = torch.eye(len(first), dtype=torch.bool, device=first.device)
        loss: torch.Tensor = self(scores(first, second, self.settings.similarity), same)
        return loss

    def alike(self, pairs: int) -> float:
        """Return the loss of a batch of ``pairs`` by a model that gives all pairs one score, and so knows nothing.

        All pairs count as mismatches; the loss is a little smaller where pairs share a picture.
        """
        settings = self.settings
        objectives = 2 if settings.second_caption and settings.pictures != "none" else 1
        auxiliary = settings.beside_batch
        return objectives * self._alike(pairs) + (self._alike(auxiliary) if auxiliary else 0)

    def _alike(self, pairs: int) -> float:
        settings = self.settings
        each = pairs if settings.reduction == "sum" else 1
        if settings.loss == "infonce":
            return math.log(pairs) * each
        if settings.loss == "hardest":
            return 2 * settings.margin * each
        mismatches = pairs * (pairs - 1)
        return 2 * settings.margin * mismatches * each / (pairs if settings.reduction == "sum" else pairs**2)

    def flat(self, losses: Numbers, pairs: npt.NDArray[np.int64]) -> bool:
        """Return whether the loss is ``hardest``, and all losses of an epoch are near the loss of equal scores.

        Args:
            losses: the loss of each batch.
            pairs: the number of pairs of each batch.
        """
        collapsed = np.array([self.alike(int(number)) for number in pairs])
        return self.settings.loss == "hardest" and bool((np.abs(losses - collapsed) <= NEAR * collapsed).all())


@dataclass(frozen=True)
class Plan:
    """The batches of an epoch, counted from 0: the captions and the learning rate of each, and the batches before."""

    epoch: int
    first: int
    order: list[npt.NDArray[np.int64]]
    rates: list[float]


class Watch:
    """The losses and gradient norms of an epoch; made at the beginning of a run, with the encoders on their device.

    Args:
        encoders: the encoders.
        objective: the objective.
        explosions: whether a loss that explodes is an error.
    """

    def __init__(self, encoders: Encoders, objective: Objective, *, explosions: bool = True) -> None:
        self.objective, self._explosions = objective, explosions
        self._sides = [list(side.parameters()) for side in (encoders.images, encoders.captions)]
        self._start = self._sizes()
        self._unread: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._shares: list[float] = []  # of the batches since the last verdict
        self._best = np.inf  # the least mean of LOOK shares so far
        self.begin()

    def begin(self) -> None:
        """Begin an epoch."""
        self.losses: Numbers = np.empty(0)
        """The losses of the epoch that were read, for each batch."""
        self.norms: Numbers = np.empty((0, 2))
        """The gradient norms of the picture and the caption side of each of these batches."""

    def add(self, loss: torch.Tensor, norms: torch.Tensor) -> None:
        """Keep a batch's loss, a scalar, and gradient norms (2,), on the device; nothing waits for them."""
        self._unread.append((loss, norms))

    @property
    def due(self) -> bool:
        """Whether enough batches were kept for a verdict."""
        return len(self._unread) + len(self._shares) >= LOOK

    def look(self, plan: Plan) -> None:
        """Read and judge the batches since the last look; call this when it is :attr:`due`, or before.

        Raises:
            TrainingError: a loss or a gradient is not finite, or the loss explodes; the message has the batch, the
                epoch, the learning rate and the gradient norms.
        """
        if not self._unread:
            return
        losses, norms = (torch.stack(values).cpu().double().numpy() for values in zip(*self._unread, strict=True))
        self._unread, start = [], len(self.losses)
        self.losses, self.norms = np.r_[self.losses, losses], np.r_[self.norms, norms]
        finite = np.isfinite(losses) & np.isfinite(norms).all(axis=1)
        if not finite.all():
            place = start + int(np.argmin(finite))
            kind = "gradient" if np.isfinite(self.losses[place]) else "loss"
            raise self._error(f"the {kind} is not finite at", plan, place, " of the batch before:", place - 1)
        for place, loss in enumerate(losses, start):
            alike = self.objective.alike(len(plan.order[place]))
            # 0 without a margin that float32 has: equal scores cost nothing
            self._shares.append(loss / alike if alike > np.finfo(np.float32).tiny else 0.0)
        if len(self._shares) >= LOOK:
            self._judge(plan)

    def state(self) -> dict[str, torch.Tensor]:
        """Return the whole state after a look, as tensors by name."""
        assert not self._unread
        state = {"losses": self.losses, "norms": self.norms, "shares": self._shares, "best": self._best}
        return {name: torch.from_numpy(np.array(value, np.float64)) for name, value in state.items()}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Restore the state that :meth:`state` returned."""
        self.losses, self.norms = state["losses"].numpy(), state["norms"].numpy()
        self._shares, self._best = state["shares"].tolist(), float(state["best"])

    @torch.no_grad()
    def _sizes(self) -> torch.Tensor:
        """Return the norm of each side's weights, float (2,)."""
        norms = [torch.stack([torch.linalg.vector_norm(weight) for weight in side]) for side in self._sides]
        return torch.stack([torch.linalg.vector_norm(each) for each in norms])

    def _judge(self, plan: Plan) -> None:
        share, before = float(np.mean(self._shares)), self._best
        self._shares, self._best = [], min(before, share)
        if share < NOTHING or not self._explosions:
            return
        grown = float((self._sizes() / self._start).max())
        if before <= LEARNED:
            why = f"it was {before:.2f} times that"
        elif not grown <= GROWN:
            why = f"the weights have grown {grown:.3g}-fold"
        else:
            return
        what = f"over {LOOK} batches it is {share:.2f} times what it costs to give all pairs one score, and {why}"
        place = len(self.losses) - 1
        raise self._error(f"the loss explodes: {what};", plan, place, "", place)

    def _error(self, what: str, plan: Plan, place: int, whose: str, norms_of: int) -> TrainingError:
        norms = "none yet" if norms_of < 0 else "{:.3g} (pictures) and {:.3g} (captions)".format(*self.norms[norms_of])
        return TrainingError(
            f"{what} batch {plan.first + place + 1} (epoch {plan.epoch + 1}), learning rate {plan.rates[place]:.3g}, "
            f"gradient norms{whose} {norms}",
            todo="Lower train.rate_max, or clip the gradients (train.clip_images, train.clip_captions).",
        )


def at_chance(mean_rank: float, pictures: int) -> bool:
    """Return whether the mean rank of the right one of ``pictures`` pictures is within a standard error of chance.

    By chance the mean of N independent ranks is (N + 1) / 2, with the standard error ``sqrt((N^2 - 1) / 12 / N)``.
    Captions of one picture are not independent, so a picture counts once. Ties count against the right picture: for
    equal scores the mean rank is N.
    """
    return mean_rank >= (pictures + 1) / 2 - math.sqrt((pictures**2 - 1) / 12 / pictures)


def stuck(epoch: int, mean_rank: float) -> TrainingError:
    """Return the error of a run that is stuck up to an epoch."""
    return TrainingError(
        f"training is stuck: for {EPOCHS} epochs, up to epoch {epoch}, all pairs of a batch score alike (their loss, "
        f"summed, is 2 * batch * margin) and dev is no better than chance (mean rank of the right picture "
        f"{mean_rank:.1f})",
        todo="The hardest mismatch is known for it: lower train.rate_max, or begin with small embeddings "
        "(train.initialisation: vsepp).",
    )
