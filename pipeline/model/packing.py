"""Rows of different lengths without padding: what stands at one step lies together, the longest row first.

The order of torch's packed sequences. Step t of a batch is a block of ``sizes[t]`` lines, one for
each row that is longer than t; the rows are sorted, so they are always the first ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Packing:
    """Where each position of a padded batch (B, T) lies among N lines without padding."""

    rows: int
    """B."""
    steps: int
    """T, the longest row."""
    sizes: list[int]
    """Rows that are longer than t, for each of the T steps; they fall."""
    padding: torch.Tensor
    """How much padding each row has, from the longest row (none) to the shortest: int64 (B,)."""
    order: torch.Tensor
    """Rows from the longest to the shortest: int64 (B,)."""
    lines: torch.Tensor
    """Position ``row * T + step`` in the flat padded batch of each line: int64 (N,)."""

    @classmethod
    def of(cls, lengths: torch.Tensor) -> Packing:
        """The packing of rows with these lengths, int64 (B,) of at least 1, on the processor."""
        order = torch.argsort(lengths, descending=True, stable=True)
        steps = int(lengths.max())
        longer = lengths[order][None, :] > torch.arange(steps)[:, None]  # (T, B)
        step, place = longer.nonzero(as_tuple=True)
        return cls(
            len(lengths), steps, longer.sum(dim=1).tolist(), steps - lengths[order], order, order[place] * steps + step
        )

    @property
    def blocks(self) -> list[slice]:
        """The lines of each step."""
        ends = torch.tensor(self.sizes).cumsum(0).tolist()
        return [slice(end - size, end) for size, end in zip(self.sizes, ends, strict=True)]

    def pack(self, padded: torch.Tensor) -> torch.Tensor:
        """(B, T, ..) to (N, ..)."""
        return padded.flatten(0, 1).index_select(0, self.lines)

    def unpack(self, lines: torch.Tensor) -> torch.Tensor:
        """(N, D) to (B, T, D), zero on the padding."""
        padded = lines.new_zeros(self.rows * self.steps, lines.shape[1])
        return padded.index_copy(0, self.lines, lines).view(self.rows, self.steps, -1)
