"""Detects a training run that is stuck where all pairs of a batch score alike.

With the hardest mismatch, such a model has the loss ``2 * batch * margin`` (with the sum) and may keep it for ever. A
run that learns can have nearly this loss for ten epochs, so a run is stuck only when for :data:`EPOCHS` epochs in a row
all losses are near it (:meth:`Objective.flat`) and the mean rank on dev is that of chance (:func:`at_chance`).
"""

from __future__ import annotations

import math

from sightword.errors import TrainingError

EPOCHS = 5
ERRORS = 1.0
"""Standard errors by which a mean rank must be below that of chance."""


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
