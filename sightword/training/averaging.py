"""The mean of the weights along a training, an alternative to an ensemble of snapshots: one network instead of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

from sightword.model.encoders import Encoders
from sightword.training.settings import TrainSettings


class Averaging:
    """The encoders as training has them, and their average where the settings ask for one.

    ``ema`` takes the weights after each batch, ``swa`` (Izmailov et al. 2018, algorithm 1) those at the end of each
    cycle of the learning rate. Buffers, which are the mean and deviation of the features, are no part of the
    average: they do not change, and a deviation may be infinite.

    Args:
        encoders: what is trained, on its device.
        settings: the parameters.
    """

    def __init__(self, encoders: Encoders, settings: TrainSettings) -> None:
        self.encoders, self.settings = encoders, settings
        self.average: AveragedModel | None = None
        if settings.average != "none":
            self.average = AveragedModel(encoders, multi_avg_fn=_rule(settings))
            self.average.requires_grad_(requires_grad=False)
            for module in self.average.modules():
                if isinstance(module, nn.RNNBase):
                    module.flatten_parameters()  # a copy's weights no longer lie together, which cuDNN asks for

    @property
    def result(self) -> Encoders:
        """What is validated and kept: the average as soon as there is one, before that the encoders themselves."""
        if self.average is None or not int(self.average.n_averaged):
            return self.encoders
        return cast("Encoders", self.average.module)

    def after_batch(self, epoch: int) -> None:
        """Take the weights after a batch of an epoch, counted from 0, into an exponential average."""
        if self.average is not None and self.settings.average == "ema" and epoch >= self.settings.average_start:
            self.average.update_parameters(self.encoders)

    def after_epoch(self, epoch: int) -> None:
        """Take the weights after an epoch, counted from 1, into the mean over the ends of cycles."""
        settings = self.settings
        if (
            self.average is not None
            and settings.average == "swa"
            and epoch % settings.cycle == 0
            and epoch > settings.average_start
        ):
            self.average.update_parameters(self.encoders)

    def state(self) -> dict[str, torch.Tensor]:
        """All of it that must be saved to go on to the bit, as tensors by name."""
        return {} if self.average is None else dict(self.average.state_dict())

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Put back what :meth:`state` gave.

        Raises:
            RuntimeError: it is another network's.
        """
        if self.average is not None:
            self.average.load_state_dict(state)


def _rule(settings: TrainSettings) -> Callable[[Any, Any, Any], None]:
    found: Callable[[Any, Any, Any], None] = (
        get_ema_multi_avg_fn(settings.average_decay)  # type: ignore[no-untyped-call]  # torch gives it no type
        if settings.average == "ema"
        else get_swa_multi_avg_fn()  # type: ignore[no-untyped-call]  # nor this
    )
    return found
