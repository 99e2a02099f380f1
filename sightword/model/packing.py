"""Rows of different lengths without padding, in the order of torch's packed sequences.

Step t of a batch is a block of ``sizes[t]`` lines, one for each row that is longer than t. The rows are sorted by
falling length, so they are always the first ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sightword.compute.devices import move

STEPS = 16
"""The number of steps of padded rows (:meth:`Places.of`) is a multiple of this one, so that there are few shapes."""


@dataclass(frozen=True)
class Packing:
    """The place of each position of a padded batch (B, T) among N lines without padding; its tensors are on the CPU."""

    rows: int
    """B."""
    steps: int
    """T, the width of the padded batch."""
    sizes: list[int]
    """Number of rows that are longer than t, for each step t of the longest row."""
    padding: torch.Tensor
    """Amount of padding of each row, from the longest row to the shortest: int64 (B,)."""
    order: torch.Tensor
    """Rows from the longest to the shortest: int64 (B,)."""
    lines: torch.Tensor
    """Position ``row * T + step`` in the flat padded batch of each line: int64 (N,)."""

    @classmethod
    def of(cls, lengths: torch.Tensor, steps: int | None = None) -> Packing:
        """Return the packing of rows with lengths int64 (B,), each from 1 to ``steps`` (T), on the CPU."""
        order = torch.argsort(lengths, descending=True, stable=True)
        longest = int(lengths.max())
        steps = longest if steps is None else steps
        longer = lengths[order][None, :] > torch.arange(longest)[:, None]  # (longest, B)
        step, place = longer.nonzero(as_tuple=True)
        sizes, lines = longer.sum(dim=1).tolist(), order[place] * steps + step
        return cls(len(lengths), steps, sizes, steps - lengths[order], order, lines)

    @property
    def blocks(self) -> list[slice]:
        """The lines of each step."""
        ends = torch.tensor(self.sizes).cumsum(0).tolist()
        return [slice(end - size, end) for size, end in zip(self.sizes, ends, strict=True)]

    def pack(self, padded: torch.Tensor) -> torch.Tensor:
        """Map (B, T, ..) to (N, ..)."""
        return padded.flatten(0, 1).index_select(0, move(self.lines, padded.device))

    def unpack(self, lines: torch.Tensor) -> torch.Tensor:
        """Map (N, D) to (B, T, D), zero on the padding."""
        places = Places(self.lines.numpy(), self.rows * self.steps, lines.device)
        return places.spread(lines).view(self.rows, self.steps, -1)


class Places:
    """The places of N lines among the M positions of padded rows, on a device.

    Args:
        padded: the place of each line, none of which comes twice: int64 (N,).
        count: M.
        device: the device of the lines.
    """

    def __init__(self, padded: npt.NDArray[np.int64], count: int, device: torch.device) -> None:
        whole = np.full(len(padded) + count, -1)
        whole[: len(padded)] = padded
        whole[len(padded) + padded] = np.arange(len(padded))
        moved = move(torch.from_numpy(whole), device)
        self._padded, lines = moved[: len(padded)], moved[len(padded) :]
        self._empty, self._lines = (lines < 0)[:, None], lines.clamp(min=0)

    @classmethod
    def of(cls, sizes: Sequence[int], device: torch.device, *, backwards: bool) -> tuple[Places, int, int]:
        """Return the places of packed lines among padded rows (T, B), and T and B.

        Args:
            sizes: the number of lines of each step, as in :class:`Packing`.
            device: the device of the lines.
            backwards: put the last line of each row first; the padding is always behind the lines.
        """
        rows, steps, counts = sizes[0], -(-len(sizes) // STEPS) * STEPS, np.array(sizes)
        step = np.repeat(np.arange(len(sizes)), counts)
        row = np.arange(len(step)) - np.repeat(counts.cumsum() - counts, counts)
        if backwards:
            step = np.bincount(row)[row] - 1 - step
        return cls(step * rows + row, rows * steps, device), steps, rows

    def spread(self, lines: torch.Tensor) -> torch.Tensor:
        """Map lines (N, D) to positions (M, D), zero on the padding."""
        found: torch.Tensor = _Moved.apply(lines, self, True)  # type: ignore[no-untyped-call]  # torch gives it no types
        return found

    def gather(self, padded: torch.Tensor) -> torch.Tensor:
        """Map positions (M, D) to lines (N, D)."""
        found: torch.Tensor = _Moved.apply(padded, self, False)  # type: ignore[no-untyped-call]  # torch gives it no types
        return found

    def _moved(self, values: torch.Tensor, *, spread: bool) -> torch.Tensor:
        if spread:
            return values.index_select(0, self._lines).masked_fill_(self._empty, 0)
        return values.index_select(0, self._padded)


class _Moved(torch.autograd.Function):
    """Gradients of a spread are gathered, or the reverse; those of ``index_select`` are sums, for which a GPU sorts."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, places: Places, spread: bool) -> torch.Tensor:
        ctx.places, ctx.spread = places, spread
        return places._moved(values, spread=spread)

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.places._moved(outer, spread=not ctx.spread), None, None
