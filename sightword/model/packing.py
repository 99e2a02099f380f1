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
    """T, the width of the padded batch."""
    sizes: list[int]
    """Rows that are longer than t, for each step t of the longest row; they fall."""
    padding: torch.Tensor
    """How much padding each row has, from the longest row to the shortest: int64 (B,)."""
    order: torch.Tensor
    """Rows from the longest to the shortest: int64 (B,)."""
    lines: torch.Tensor
    """Position ``row * T + step`` in the flat padded batch of each line: int64 (N,)."""

    @classmethod
    def of(cls, lengths: torch.Tensor, steps: int | None = None) -> Packing:
        """The packing of rows, on the processor.

        Args:
            lengths: int64 (B,), each at least 1.
            steps: T, the width of the padded batch; the longest row unless given.

        Raises:
            ValueError: a row is longer than the batch is wide.
        """
        order = torch.argsort(lengths, descending=True, stable=True)
        longest = int(lengths.max())
        steps = longest if steps is None else steps
        if longest > steps:
            raise ValueError(f"a row of length {longest} in a batch of {steps} steps")
        longer = lengths[order][None, :] > torch.arange(longest)[:, None]  # (longest, B)
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
