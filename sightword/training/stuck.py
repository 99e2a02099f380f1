"""Whether a training run is stuck where all pairs of a batch score alike.

With the hardest mismatch a model that gives all pairs one score has the loss ``2 * batch * margin`` (with the sum), and
may keep it for ever. The loss alone does not show this: a run with the values of VSE++ has a loss within 1 % of that
for ten epochs, while recall on dev rises from 4 to 42 percent. A run is therefore stuck only when for :data:`EPOCHS`
epochs in a row, with the hardest mismatch,

* each batch's loss is within :data:`NEAR` of what equal scores cost (:meth:`Objective.flat`); and
* the mean rank of the right picture on dev is no better than chance (:func:`at_chance`).
"""

from __future__ import annotations

import math

EPOCHS = 5
NEAR = 0.01
"""Relative to the loss of equal scores."""
ERRORS = 1.0
"""Standard errors by which a mean rank must be below that of chance."""


def at_chance(mean_rank: float, pictures: int) -> bool:
    """Whether chance could give this mean rank of the right picture.

    By chance the mean is (N + 1) / 2, and the mean of the ranks of N independent queries has the standard error
    ``sqrt((N^2 - 1) / 12 / N)``. Captions of one picture are not independent, so a picture counts once. The mean rank
    of a collapsed model is nearer to chance than that, since its queries rank the pictures nearly alike.

    Args:
        mean_rank: ties count against, so for equal scores it is N.
        pictures: N, at least 1.
    """
    error = math.sqrt((pictures**2 - 1) / 12 / pictures)
    return mean_rank >= (pictures + 1) / 2 - ERRORS * error
