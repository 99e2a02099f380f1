"""A GRU with layer normalisation (Ba et al. 2016, equations 20 to 22), without gains and biases.

Encoder and decoders of the released code of Bordes et al. (2019) are such GRUs, where the gains stay 1. Both gates
together are shifted and scaled to mean 0 and variance 1, and so is the candidate, before the reset gate multiplies it;
the inputs' part and the states' part each by themselves. The update gate z is the share of the candidate c in the new
state, ``(1 - z) h + z c``; in ``torch.nn.GRU`` z is the share of the old state h. Since both gates have one norm, no
sign of weights turns one into the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from sightword.model.packing import Places
from sightword.model.recorded import recorded

EPSILON = 1e-12
"""Added to the variance, as in TensorFlow's layer normalisation, which the released code calls; Ba et al. add 1e-5."""


class LayerNormGru(nn.RNNBase):
    """One layer in one direction, with the gates, their order and the input weights' names of ``torch.nn.GRU``.

    Args:
        width: numbers in each input vector.
        hidden: states.
        batch_first: the order of the inputs; rows always come first.
    """

    def __init__(self, width: int, hidden: int, *, batch_first: bool = True) -> None:
        assert batch_first
        super().__init__("GRU", width, hidden, bias=False, batch_first=True)

    def forward(self, inputs: torch.Tensor, start: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Map inputs (B, T, width) to the states (B, T, H) and the last states (1, B, H), on any device.

        Args:
            inputs: the inputs.
            start: the initial states (1, B, H); zero by default.
        """
        rows, steps, _ = inputs.shape
        lines = inputs.transpose(0, 1).flatten(0, 1)
        states = self.packed(lines, [rows] * steps, start=None if start is None else start[0])
        states = states.view(steps, rows, -1).transpose(0, 1)
        return states, states[None, :, -1]

    def packed(
        self,
        inputs: torch.Tensor,
        sizes: Sequence[int],
        *,
        places: torch.Tensor | None = None,
        start: torch.Tensor | None = None,
        backwards: bool = False,
    ) -> torch.Tensor:
        """Return the states of N packed lines, (N, H), computed by autograd on any device.

        Products are computed in the type of the inputs, all else in float32 at least.

        Args:
            inputs: the vectors of the lines, (N, width); with ``places`` those of K words, (K, width).
            sizes: the number of lines of each step (:class:`sightword.model.packing.Packing`).
            places: the word of each line, int64 (N,).
            start: the initial states (B, H), in the packing's order; zero by default.
            backwards: read each row from its last line to its first.
        """
        dtype, hidden = inputs.dtype, self.hidden_size
        own, recurrent = (weights.to(dtype) for weights in self.all_weights[0])
        parts = normalised(F.linear(inputs, own))
        lines = parts if places is None else [part.index_select(0, places) for part in parts]
        wide = torch.promote_types(dtype, torch.float32)
        first = inputs.new_zeros(max(sizes), hidden, dtype=wide) if start is None else start.to(wide)
        if inputs.is_cuda:
            return self._recorded(lines[0], lines[1], recurrent, first, sizes, backwards=backwards).to(dtype)
        steps = list(zip(sizes, *(torch.split(part, list(sizes)) for part in lines), strict=True))
        state, found = first[:0], []
        for rows, gates, candidate in reversed(steps) if backwards else steps:
            state = torch.cat((state[:rows], first[len(state) : rows]))  # a row starts at its first line
            state = _next(state, gates, candidate, recurrent)
            found.append(state)
        return torch.cat(found[::-1] if backwards else found).to(dtype)

    def _recorded(
        self,
        gates: torch.Tensor,
        candidate: torch.Tensor,
        recurrent: torch.Tensor,
        first: torch.Tensor,
        sizes: Sequence[int],
        *,
        backwards: bool,
    ) -> torch.Tensor:
        """Return the states (N, H) on a GPU, computed over padded rows, all steps in one recording."""
        places, steps, rows = Places.of(sizes, gates.device, backwards=backwards)
        inputs = (places.spread(part).view(steps, rows, -1) for part in (gates, candidate))
        return places.gather(recorded(_states, self)(*inputs, first, recurrent).flatten(0, 1))


def _states(
    _: nn.Module, gates: torch.Tensor, candidate: torch.Tensor, first: torch.Tensor, recurrent: torch.Tensor
) -> torch.Tensor:
    """Return the states (T, B, H) after each step, from the inputs' parts (T, B, 2H) and (T, B, H)."""
    found = [first]
    for step in zip(gates, candidate, strict=True):
        found.append(_next(found[-1], *step, recurrent))
    return torch.stack(found[1:])


def _next(state: torch.Tensor, gates: torch.Tensor, candidate: torch.Tensor, recurrent: torch.Tensor) -> torch.Tensor:
    """Return the state (B, H) after a step; the weights, of any float type, are multiplied in their own type."""
    gates_by_state, candidate_by_state = normalised(F.linear(state.to(recurrent.dtype), recurrent))
    reset, update = (gates + gates_by_state).sigmoid().chunk(2, dim=1)
    return torch.lerp(state, torch.tanh(candidate + reset * candidate_by_state), update)


def normalised(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both gates (N, 2H) and the candidate (N, H) of values (N, 3H), with mean 0 and variance 1 over each."""
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    hidden = values.shape[1] // 3
    gates, candidate = wide[:, : 2 * hidden], wide[:, 2 * hidden :]
    return F.layer_norm(gates, (2 * hidden,), eps=EPSILON), F.layer_norm(candidate, (hidden,), eps=EPSILON)
