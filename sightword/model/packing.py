"""Rows of different lengths without padding, in the order of torch's packed sequences.

Step t of a batch is a block of ``sizes[t]`` lines, one for each row that is longer than t. The rows are sorted by
falling length, so they are always the first ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sightword.compute.devices import move


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
        """Return the packing of rows with lengths int64 (B,), each at least 1, on the CPU.

        Raises:
            ValueError: a row is longer than ``steps`` (T; the longest row by default).
        """
        order = torch.argsort(lengths, descending=True, stable=True)
        longest = int(lengths.max())
        steps = longest if steps is None else steps
        if longest > steps:
            raise ValueError(f"a row of length {longest} in a batch of {steps} steps")
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
        padded = lines.new_zeros(self.rows * self.steps, lines.shape[1])
        return padded.index_copy(0, move(self.lines, lines.device), lines).view(self.rows, self.steps, -1)
