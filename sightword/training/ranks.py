"""One process among the processes (ranks) of a training run; here the run has no other one.

:mod:`sightword.training.group` has the same for several. Each rank embeds its share of a batch. All embeddings are
gathered, and each rank computes the loss of the whole batch, with gradients to its own share only. The sum of the
gradients of all ranks is that of one process, whatever the objective, and for shares of any sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sightword.features.pairs import Pairs
from sightword.machine import Place

Rows = npt.NDArray[np.int64]


class Ranks:
    """A training run in one process: the whole batch is its share, and nothing is sent."""

    first = True
    """Whether this rank writes the files and speaks to the user."""
    count = 1
    """Number of ranks."""

    def share(self, own: tuple[Pairs, int] | None, hashes: Mapping[str, Any], scratch: Path) -> tuple[Pairs, int]:
        """Return the training split and the number of ids, which the first rank of each machine has read.

        Args:
            own: both; None in the other ranks of the machine.
            hashes: the inputs that they were made from; empty in the other ranks.
            scratch: the folder in which the split is for a moment.

        Raises:
            TrainingError: another machine has other inputs.
            OSError: the file system's error.
        """
        del hashes, scratch
        assert own is not None
        return own

    def cut(self, rows: Rows) -> tuple[Rows, slice]:
        """Return the rows (B,) of a batch, in the order of the ranks, and the place of this rank's share in them."""
        return rows, slice(0, len(rows))

    def seed(self, seed: int, step: int) -> None:
        """Begin the random numbers of a batch; one process goes on with those of the batch before."""

    def gather(self, own: torch.Tensor, size: int) -> torch.Tensor:
        """Return the vectors (B, D) of a batch of so many rows; those of this rank (b, D) keep their gradients."""
        del size
        return own

    def add_gradients(self, weights: Iterable[torch.nn.Parameter]) -> None:
        """Give each weight the sum of its gradients over all ranks."""

    def from_first(self, data: bytes) -> bytes:
        """Return the bytes of the first rank, in every rank."""
        return data


ALONE = Ranks()


@contextlib.contextmanager
def joined(place: Place, device: torch.device) -> Iterator[Ranks]:
    """Yield this process among the others of its run, once all of them have come.

    Raises:
        RanksError: the others do not come.
    """
    if place.ranks == 1:
        yield ALONE
        return
    from sightword.training.group import group  # it loads torch's launcher

    with group(place, device) as found:
        yield found
