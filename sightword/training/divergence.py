"""Whether a training is still one: its losses and gradients are numbers, and its loss does not explode.

Embeddings have length 1, so no loss here can grow without bound, however large the steps are: it comes back to what a
model costs that gives all pairs of a batch one score, which knows nothing (:meth:`Objective.alike`). Losses are
therefore told as shares of that. The losses of each ``LOOK`` batches in a row are looked at together; their mean is an
explosion when it is at least ``NOTHING`` of that cost and either

* it was at most ``LEARNED`` of it before, under the same objective: all that was learned is lost; or
* the weights of a side have grown more than ``GROWN``-fold since the beginning: the steps were so large that there is
  nothing left to learn from.

A training that is well never meets this. At the beginning its loss is near that cost or above it, and its weights are
of their first size; when it has halved its loss it does not lose all of it again over so many batches, not even where
the learning rate rises anew. With ``warm_up`` the count begins again where the objective changes. How often one
looks, and where a training was killed, does not change what is found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sightword.errors import TrainingError
from sightword.model.encoders import Encoders
from sightword.training.objective import Objective

Numbers = npt.NDArray[np.float64]

LOOK = 50
"""Batches whose losses are read from the device, and judged, together."""
NOTHING = 0.9
LEARNED = 0.5
GROWN = 1000.0


@dataclass(frozen=True)
class Plan:
    """The batches of an epoch."""

    epoch: int
    """Counted from 0."""
    first: int
    """Batches of all epochs before."""
    order: list[npt.NDArray[np.int64]]
    """Each batch's captions."""
    rates: list[float]
    """Each batch's learning rate."""


class Watch:
    """The losses and gradient norms of an epoch, and what was seen of those before.

    Args:
        encoders: as they are at the beginning, on their device.
        objective: what they are trained with.
    """

    def __init__(self, encoders: Encoders, objective: Objective) -> None:
        self.objective = objective
        self._sides = [list(side.parameters()) for side in (encoders.images, encoders.captions)]
        self._start = self._sizes()
        self._unread: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.losses: Numbers = np.empty(0)
        """Those of the epoch that were read, one for each batch."""
        self.norms: Numbers = np.empty((0, 2))
        """The gradients' norms of the picture and the caption side, likewise."""
        self._shares: list[float] = []  # of the batches since the last verdict
        self._best = np.inf  # the least mean of LOOK of them so far

    def begin(self, *, anew: bool) -> None:
        """An epoch begins; ``anew``, with another objective."""
        self.losses, self.norms = np.empty(0), np.empty((0, 2))
        if anew:
            self._shares, self._best = [], np.inf

    def add(self, loss: torch.Tensor, norms: torch.Tensor) -> None:
        """Keep a batch's loss, a scalar, and gradient norms (2,), where they are; nothing waits for them."""
        self._unread.append((loss, norms))

    @property
    def due(self) -> bool:
        """Whether so many batches were kept that they are to be looked at now."""
        return len(self._unread) + len(self._shares) >= LOOK

    def look(self, plan: Plan) -> None:
        """Read what was kept since the last look, and judge it. At the latest to be called when it is :attr:`due`.

        Raises:
            TrainingError: a loss or a gradient is no number, or the loss explodes; with the batch, the epoch, the
                learning rate and the gradients' norms.
        """
        if not self._unread:
            return
        losses, norms = zip(*self._unread, strict=True)
        self._unread = []
        start = len(self.losses)
        self.losses = np.r_[self.losses, torch.stack(losses).cpu().double().numpy()]
        self.norms = np.r_[self.norms, torch.stack(norms).cpu().double().numpy()]
        finite = np.isfinite(self.losses[start:]) & np.isfinite(self.norms[start:]).all(axis=1)
        if not finite.all():
            raise self._no_number(plan, start + int(np.argmin(finite)))
        for place in range(start, len(self.losses)):
            alike = self.objective.alike(len(plan.order[place]), epoch=plan.epoch)
            # Without a margin such a model costs nothing, and nothing can be told from it.
            self._shares.append(self.losses[place] / alike if alike else 0.0)
        if len(self._shares) >= LOOK:
            self._judge(plan)

    def state(self) -> dict[str, torch.Tensor]:
        """All of it that must be saved to go on, as tensors by name; after a look."""
        assert not self._unread
        found = {"losses": self.losses, "norms": self.norms, "shares": self._shares, "best": self._best}
        return {name: torch.from_numpy(np.array(value, np.float64)) for name, value in found.items()}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Put back what :meth:`state` gave."""
        self.losses, self.norms = state["losses"].numpy(), state["norms"].numpy()
        self._shares, self._best = state["shares"].tolist(), float(state["best"])

    def _sizes(self) -> torch.Tensor:
        """The norms of each side's weights, float (2,)."""
        with torch.no_grad():
            norms = [torch.stack([torch.linalg.vector_norm(weight) for weight in side]) for side in self._sides]
            return torch.stack([torch.linalg.vector_norm(each) for each in norms])

    def _judge(self, plan: Plan) -> None:
        share, before = float(np.mean(self._shares)), self._best
        self._shares, self._best = [], min(before, share)
        if share < NOTHING:
            return
        grown = float((self._sizes() / self._start).max())
        if before <= LEARNED:
            why = f"it was {before:.2f} times that"
        elif not grown <= GROWN:
            why = f"the weights have grown {grown:.3g}-fold"
        else:
            return
        place = len(self.losses) - 1
        raise _error(
            f"the loss explodes: over {LOOK} batches it is {share:.2f} times what it costs to give all pairs one "
            f"score, and {why}; {_where(plan, place)}, gradient norms {_pair(self.norms[place])}"
        )

    def _no_number(self, plan: Plan, place: int) -> TrainingError:
        what = "gradient" if np.isfinite(self.losses[place]) else "loss"
        before = _pair(self.norms[place - 1]) if place else "none yet"
        return _error(f"the {what} is no number at {_where(plan, place)}, gradient norms of the batch before: {before}")


def _where(plan: Plan, place: int) -> str:
    return f"batch {plan.first + place + 1} (epoch {plan.epoch + 1}), learning rate {plan.rates[place]:.3g}"


def _pair(norms: Numbers) -> str:
    return f"{norms[0]:.3g} (pictures) and {norms[1]:.3g} (captions)"


def _error(what: str) -> TrainingError:
    return TrainingError(
        what, todo="Lower train.rate_max, or clip the gradients (train.clip_images, train.clip_captions)."
    )
