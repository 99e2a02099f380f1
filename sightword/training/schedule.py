"""The learning rate of each batch."""

from __future__ import annotations

import math

from sightword.training.settings import TrainSettings


def learning_rate(settings: TrainSettings, step: int, per_epoch: int) -> float:
    """The learning rate of batch ``step``, counted from 0 over the whole training.

    Args:
        settings: the parameters.
        step: batches done before this one.
        per_epoch: batches in an epoch.
    """
    if settings.schedule == "step":
        return step_rate(step // per_epoch, settings.step_epochs, settings.rate_max, settings.step_factor)
    return cyclic_rate(step, settings.cycle * per_epoch, settings.rate_min, settings.rate_max)


def cyclic_rate(step: int, cycle: int, lowest: float, highest: float) -> float:
    """The learning rate of batch ``step``, counted from 0, by the released code of Merkx & Frank (2019).

    It rises from ``lowest`` to ``highest`` in half a cycle and falls back in the other
    half, along a cosine. (The formula printed in the paper, section 3.4, has no minimum at
    a cycle's end.)

    Args:
        step: batches done before this one.
        cycle: batches in a cycle.
        lowest: rate at both ends of a cycle.
        highest: rate in its middle.
    """
    return (highest - lowest) * 0.5 * (1 + math.cos(math.pi * (1 + 2 * step / cycle))) + lowest


def step_rate(epoch: int, every: int, first: float, factor: float) -> float:
    """The learning rate of an epoch, counted from 0: constant for some epochs, then a fraction of it, and so on.

    As in VSE++ (Faghri et al. 2018, section 4.2): a tenth after 15 epochs.

    Args:
        epoch: epochs done before this one.
        every: epochs between two steps.
        first: rate before the first step.
        factor: what each step multiplies it by.
    """
    return float(first * factor ** (epoch // every))
