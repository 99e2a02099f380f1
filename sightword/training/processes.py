"""The interface of a process of a training run, and its implementation for a single process.

Several processes share the work of each batch (:mod:`sightword.training.group`): each embeds its share, all embeddings
are gathered, and each process computes the loss of the whole batch, with gradients to its own share only. The sum of
the gradients of all processes is that of one process, whatever the objective, and for shares of any sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch

from sightword.training.checkpoint import Progress

Rows = npt.NDArray[np.int64]
State = tuple[Progress, dict[str, torch.Tensor]]


class Processes:
    """A training run in one process: the whole batch is its share, and nothing is sent."""

    first = True
    """Whether this process writes the files and speaks to the user."""
    count = 1
    """Number of processes."""
    machine = 0
    """The number of this process's machine."""

    def cut(self, rows: Rows) -> tuple[Rows, slice]:
        """Return the rows (B,) of a batch, in the order of the processes, and the place of this one's share in them."""
        return rows, slice(0, len(rows))

    def seed(self, seed: int, step: int) -> None:
        """Seed torch for a batch; a single process keeps its stream."""

    def gather(self, own: torch.Tensor, size: int) -> torch.Tensor:
        """Return the vectors (B, D) of a batch of so many rows; those of this process (b, D) keep their gradients."""
        del size
        return own

    def add_gradients(self, weights: Iterable[torch.nn.Parameter]) -> None:
        """Give each weight the sum of its gradients over all processes."""

    def from_first(self, data: bytes) -> bytes:
        """Return the bytes of the first process, in every process."""
        return data

    def from_first_here(self, text: str) -> str:
        """Return the text of the first process of this machine, in every process there; the others give none."""
        return text

    def wait(self) -> None:
        """Wait until all processes are here."""

    def progress(self, found: State | None) -> State | None:
        """Return what :meth:`Checkpoint.load` found in the first process, in all processes."""
        if self.count == 1:
            return found
        progress = self.from_first(json.dumps(found[0].to_json()).encode() if found else b"")  # in the order given
        tensors = self.from_first(safetensors.torch.save(found[1]) if found else b"")
        return (Progress.from_json(json.loads(progress)), safetensors.torch.load(tensors)) if progress else None


ALONE = Processes()
