"""The learning rate of each batch."""

from __future__ import annotations

import math

from sightword.vse.training.settings import TrainSettings


def learning_rate(settings: TrainSettings, step: int, per_epoch: int) -> float:
    """Return the learning rate of a batch.

    ``schedule: step`` is that of VSE++ (Faghri et al. 2018, section 4.2): a constant, multiplied by a factor every few
    epochs.

    Args:
        settings: the parameters.
        step: number of batches before this one, over the whole run.
        per_epoch: number of batches of an epoch.
    """
    whole = settings.epochs * per_epoch
    if settings.schedule == "range":
        return range_rate(step, whole, settings.rate_min, settings.rate_max)
    if settings.schedule == "cosine":
        return cosine_rate(step, whole, settings.rate_warm_up, settings.rate_min, settings.rate_max)
    if settings.schedule == "step":
        return float(settings.rate_max * settings.step_factor ** (step // per_epoch // settings.step_epochs))
    return cyclic_rate(step, settings.cycle * per_epoch, settings.rate_min, settings.rate_max)


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


def range_rate(step: int, steps: int, lowest: float, highest: float) -> float:
    """Return the learning rate of batch ``step`` of ``steps`` in a range test: from ``lowest`` to ``highest``.

    Merkx & Frank (2019, section 3.3) describe the test of Smith (2017): the bounds of a cyclic rate are the lowest and
    the highest rate at which the loss falls. Smith's rate rises by equal steps, this one by equal factors, so that each
    power of ten has as many batches.
    """
    return float(lowest * (highest / lowest) ** (step / max(1, steps - 1)))
