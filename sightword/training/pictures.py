"""The features of the training pictures, as batches take them."""

from __future__ import annotations

import hashlib
import logging

import numpy as np
import numpy.typing as npt
import torch

from sightword.devices import move
from sightword.pairs import Pairs
from sightword.training.settings import TrainSettings

log = logging.getLogger(__name__)


class Pictures:
    """The features of the training pictures, near the device where they fit.

    Args:
        split: the training split.
        settings: with ``crops``, a picture's features are the mean over so many of its crops, drawn for each batch.
        device: the device of the batches.
    """

    def __init__(self, split: Pairs, settings: TrainSettings, device: torch.device) -> None:
        self._drawn, self._seed, self._device = settings.crops, settings.seed, device
        table = split.crops if self._drawn and split.crops is not None else split.features
        self._table = _near(torch.from_numpy(table), device)  # (N, D), or (N, C, D) to draw from
        self.kinds = torch.from_numpy(_distinct(split.features)).to(device)
        """(N,) a number for each picture, the same for pictures with equal features: copies are not mismatches."""

    def features(self, places: npt.NDArray[np.int64], own: slice, step: int) -> torch.Tensor:
        """Return the features, float32 (b, D), of a share of a batch.

        Args:
            places: the pictures of the batch, (B,).
            own: the share, b of them.
            step: the number of the batch in the run. With the seed, it determines the crops of all B pictures, in
                whatever order they come.
        """
        chosen = [torch.from_numpy(places[own])]
        if self._drawn:
            random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, step, 2])))
            crops = np.tile(np.arange(self._table.shape[1]), (len(places), 1))
            crops[np.argsort(places)] = random.permuted(crops, axis=1)
            chosen = [chosen[0][:, None], torch.from_numpy(crops[own, : self._drawn])]  # (b, 1), (b, drawn)
        near = self._table.device.type == self._device.type
        index = tuple(move(each, self._device) if near else each for each in chosen)
        found = self._table[index] if near else move(self._table[index], self._device)
        return found.mean(dim=1) if self._drawn else found


def _near(features: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the features on the device if they take at most half of its free memory, else where they are."""
    if device.type == "cuda" and 2 * features.nbytes > torch.cuda.mem_get_info(device)[0]:
        log.warning("train: the features do not fit on the GPU beside the training: each batch's are copied there")
        return features
    return features.to(device)


def _distinct(features: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(hashlib.sha256(row.data).digest(), len(seen)) for row in features], np.int64)
