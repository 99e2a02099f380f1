"""Detects divergence: losses and gradients that are not finite, a loss that explodes, and a run that is stuck.

Embeddings have length 1, so a loss is bounded, and an explosion is a return to the loss of a model that gives all pairs
of a batch one score (:meth:`Objective.alike`). Losses are taken as shares of that loss. The mean of the shares of
``LOOK`` successive batches is an explosion when it is at least ``NOTHING`` and either the least such mean before, under
the same objective, was at most ``LEARNED``, or the weights of a side have grown more than ``GROWN``-fold since the
beginning. The verdict does not depend on how often the losses are read or where a run was killed.

With the hardest mismatch, a model that gives all pairs of a batch one score may keep doing so for ever. A run that
learns can have nearly the same losses for ten epochs, so a run is stuck only when for ``EPOCHS`` epochs in a row all
losses are near that loss (:meth:`Objective.flat`) and the mean rank on dev is that of chance (:func:`at_chance`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sightword.errors import TrainingError
from sightword.model.encoders import Encoders
from sightword.vse.training.objective import Objective

Numbers = npt.NDArray[np.float64]

LOOK = 50
"""Batches whose losses are read from the device, and judged, together."""
NOTHING = 0.9
LEARNED = 0.5
GROWN = 1000.0
EPOCHS = 5
ERRORS = 1.0
"""Standard errors by which a mean rank must be below that of chance."""


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
        self.losses: Numbers = np.empty(0)
        """The losses of the epoch that were read, one for each batch."""
        self.norms: Numbers = np.empty((0, 2))
        """The gradient norms of the picture and the caption side of each of these batches."""
        self._shares: list[float] = []  # of the batches since the last verdict
        self._best = np.inf  # the least mean of LOOK shares so far

    def begin(self, *, anew: bool) -> None:
        """Begin an epoch; ``anew``: with another objective."""
        self.losses, self.norms = np.empty(0), np.empty((0, 2))
        if anew:
            self._shares, self._best = [], np.inf

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
            alike = self.objective.alike(len(plan.order[place]), epoch=plan.epoch)
            self._shares.append(loss / alike if alike else 0.0)  # 0 without a margin: equal scores cost nothing
        if len(self._shares) >= LOOK:
            self._judge(plan)

    def state(self) -> dict[str, torch.Tensor]:
        """Return the whole state after a look, as tensors by name."""
        assert not self._unread
        found = {"losses": self.losses, "norms": self.norms, "shares": self._shares, "best": self._best}
        return {name: torch.from_numpy(np.array(value, np.float64)) for name, value in found.items()}

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
    """Return whether chance could give this mean rank of the right one of ``pictures`` pictures.

    By chance the mean of N independent ranks is (N + 1) / 2, with the standard error ``sqrt((N^2 - 1) / 12 / N)``.
    Captions of one picture are not independent, so a picture counts once. Ties count against the right picture: for
    equal scores the mean rank is N.
    """
    error = math.sqrt((pictures**2 - 1) / 12 / pictures)
    return mean_rank >= (pictures + 1) / 2 - ERRORS * error


def stuck(epoch: int, mean_rank: float) -> TrainingError:
    """Return the error of a run that is stuck up to an epoch."""
    return TrainingError(
        f"training is stuck: for {EPOCHS} epochs, up to epoch {epoch}, all pairs of a batch score alike (their loss, "
        f"summed, is 2 * batch * margin) and dev is no better than chance (mean rank of the right picture "
        f"{mean_rank:.1f})",
        todo="The hardest mismatch is known for it: set train.warm_up to an epoch or more, lower train.rate_max, or "
        "begin with small embeddings (train.initialisation: vsepp).",
    )
