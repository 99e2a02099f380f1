"""The mean of the weights along a training run: one network instead of an ensemble of snapshots."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

from sightword.model.encoders import Encoders
from sightword.vse.training.settings import TrainSettings


class Averaging:
    """The encoders in training and their average: ``ema`` over batches, or ``swa`` (Izmailov et al. 2018, algorithm 1).

    Buffers (mean and standard deviation of the features) are not averaged: they do not change, and may be infinite.
    """

    def __init__(self, encoders: Encoders, settings: TrainSettings) -> None:
        self.encoders, self.settings = encoders, settings
        self.average: AveragedModel | None = None
        if settings.average == "none":
            return
        ema = settings.average == "ema"
        rule: Any = get_ema_multi_avg_fn(settings.average_decay) if ema else get_swa_multi_avg_fn()  # type: ignore[no-untyped-call]  # torch gives no types
        self.average = AveragedModel(encoders, multi_avg_fn=rule)
        self.average.requires_grad_(requires_grad=False)
        for module in self.average.modules():
            if isinstance(module, nn.RNNBase):
                module.flatten_parameters()  # cuDNN wants the weights together, and a copy's are not

    @property
    def result(self) -> Encoders:
        """The encoders to validate and keep: the average as soon as there is one, before that the trained ones."""
        if self.average is None or not int(self.average.n_averaged):
            return self.encoders
        return cast("Encoders", self.average.module)

    def after_batch(self, epoch: int) -> None:
        """Add the weights after a batch of an epoch, counted from 0, to an exponential average."""
        if self.average is not None and self.settings.average == "ema" and epoch >= self.settings.average_start:
            self.average.update_parameters(self.encoders)

    def after_epoch(self, epoch: int) -> None:
        """Add the weights after an epoch, counted from 1, to the mean over the ends of cycles."""
        settings = self.settings
        due = epoch % settings.cycle == 0 and epoch > settings.average_start
        if self.average is not None and settings.average == "swa" and due:
            self.average.update_parameters(self.encoders)

    def state(self) -> dict[str, torch.Tensor]:
        """Return the whole state, as tensors by name."""
        return {} if self.average is None else dict(self.average.state_dict())

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Restore the state that :meth:`state` returned."""
        if self.average is not None:
            self.average.load_state_dict(state)
