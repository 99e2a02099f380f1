"""GRU and LSTM over packed rows on a CPU, with gradients by hand.

PyTorch's backward pass computes the gradient of the recurrent weights step by step, from matrices of one batch's
height, and takes most of the time of training on a CPU. Here a step only carries the gradient of the states back, and
the gradient of the weights is one large product after the last step. Gates, their order and their biases are those of
``torch.nn.GRU`` and ``torch.nn.LSTM``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch

from sightword.model.products import repeated_product

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class Weights(NamedTuple):
    """The parameters of one direction, or their gradients, for G gates (3 in a GRU, 4 in an LSTM)."""

    input: torch.Tensor  # (G * H, width)
    recurrent: torch.Tensor  # (G * H, H)
    input_bias: torch.Tensor  # (G * H,)
    recurrent_bias: torch.Tensor  # (G * H,)


class Pass(ABC):
    """One direction over one batch: once forward, then at most once back.

    Args:
        weights: the parameters.
        blocks: the lines of each step (:class:`sightword.model.packing.Packing`), in the order of reading; a row starts
            at its first block.
        start: the states before the first step (B, H), a row's place being its line in the widest block; zero by
            default. A pass of a GRU only.
    """

    start_gradient: torch.Tensor
    """The gradient of ``start`` (B, H), after :meth:`backward` of a pass of a GRU."""

    def __init__(self, weights: Weights, blocks: Sequence[slice], start: torch.Tensor | None = None) -> None:
        self.weights, self.blocks, self.start = weights, blocks, start
        self.hidden = weights.recurrent.shape[1]
        self.rows = max(block.stop - block.start for block in blocks)
        self.size = self.rows * self.hidden

    @abstractmethod
    def forward(self, inputs: torch.Tensor, *, keep: bool) -> torch.Tensor:
        """Map inputs (N, width) to states (N, H); ``keep`` all that :meth:`backward` needs.

        The states are kept detached: a cycle of the states and their gradient function would never be freed.
        """

    @abstractmethod
    def backward(self, outer: torch.Tensor) -> tuple[torch.Tensor, Weights]:
        """Map the gradient of the states (N, H) to the gradients of the inputs (N, width) and of the weights."""

    def before(self, values: torch.Tensor) -> torch.Tensor:
        """Return for each line the values of its row at the step read before, ``start`` at the first: (N, H)."""
        found = torch.zeros_like(values)
        read = 0  # rows that have begun; rows begin in the order of their places
        for last, block in zip([slice(0, 0), *self.blocks], self.blocks, strict=False):
            rows = min(last.stop - last.start, block.stop - block.start)
            found[block.start : block.start + rows] = values[last.start : last.start + rows]
            new = block.stop - block.start
            if self.start is not None and new > read:
                found[block.start + read : block.stop] = self.start[read:new]
            read = max(read, new)
        return found


class GruPass(Pass):
    """One direction of a GRU."""

    def forward(self, inputs: torch.Tensor, *, keep: bool) -> torch.Tensor:
        """Compute the gates r, z and n of each step; the state becomes ``(1 - z) n + z h`` (Cho et al. 2014)."""
        hidden, weights = self.hidden, self.weights
        gates = self.gates(inputs)
        states = gates.new_empty(len(gates), hidden)
        recurrent_new = torch.empty_like(states) if keep else None
        state = states.new_zeros(self.rows, hidden) if self.start is None else self.start.clone()
        product = repeated_product(weights.recurrent, weights.recurrent_bias, self.rows)
        for block in self.blocks:
            before = state[: block.stop - block.start]
            from_state = product(before)
            recurrent = from_state[:, 2 * hidden :]
            if recurrent_new is not None:
                recurrent_new[block] = recurrent
            reset_update, new = gates[block, : 2 * hidden], gates[block, 2 * hidden :]
            reset_update.add_(from_state[:, : 2 * hidden]).sigmoid_()
            new.addcmul_(reset_update[:, :hidden], recurrent).tanh_()
            torch.lerp(new, before, reset_update[:, hidden:], out=states[block])
            before.copy_(states[block])
        if recurrent_new is not None:
            self.kept = inputs, gates, recurrent_new, states.detach()
        return states

    def gates(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the inputs' part of the gates reset, update and new: (N, 3H)."""
        return torch.addmm(self.weights.input_bias, inputs, self.weights.input.t())

    def backward(self, outer: torch.Tensor) -> tuple[torch.Tensor, Weights]:
        """Compute the gradients of the gates step by step, then the gradients of all weights at once."""
        inputs, gates, recurrent_new, states = self.kept
        hidden, weights = self.hidden, self.weights
        before = self.before(states)
        # Gradients of new, reset, update by the inputs and of reset, update, new by the states: the middle is shared.
        kept = gates.new_empty(len(gates), 4 * hidden)
        carry = states.new_zeros(self.rows, hidden)
        product = repeated_product(weights.recurrent.t(), None, self.rows)
        for block in reversed(self.blocks):
            reset, update, new = gates[block].chunk(3, dim=1)
            d_new, d_reset, d_update, d_recurrent = kept[block].chunk(4, dim=1)
            back = carry[: block.stop - block.start]
            back.add_(outer[block])
            _sigmoid_backward((before[block] - new).mul_(back), update, grad_input=d_update)
            to_state = update * back
            _tanh_backward(back.sub_(to_state), new, grad_input=d_new)
            _sigmoid_backward(d_new * recurrent_new[block], reset, grad_input=d_reset)
            torch.mul(d_new, reset, out=d_recurrent)
            torch.add(to_state, product(kept[block, hidden:]), out=back)
        self.start_gradient = carry
        return self.gradients(inputs, before, kept[:, : 3 * hidden], kept[:, hidden:])

    def gradients(
        self, inputs: torch.Tensor, before: torch.Tensor, by_inputs: torch.Tensor, by_states: torch.Tensor
    ) -> tuple[torch.Tensor, Weights]:
        """Return the gradients of the inputs and the weights.

        Args:
            inputs: those of :meth:`forward`.
            before: the state before each line, (N, H).
            by_inputs: the gradients of the inputs' part of new, reset and update, (N, 3H).
            by_states: the gradients of the states' part of reset, update and new, (N, 3H).
        """
        hidden = self.hidden
        return by_inputs @ self.weights.input.roll(hidden, 0), Weights(
            (by_inputs.t() @ inputs).roll(-hidden, 0),
            by_states.t() @ before,
            by_inputs.sum(0).roll(-hidden, 0),
            by_states.sum(0),
        )


class LstmPass(Pass):
    """One direction of an LSTM."""

    def forward(self, inputs: torch.Tensor, *, keep: bool) -> torch.Tensor:
        """Compute the gates i, f, g and o; the cell becomes ``f c + i g``, the state ``o tanh(c)``."""
        hidden, weights = self.hidden, self.weights
        bias = weights.input_bias + weights.recurrent_bias
        gates = torch.addmm(bias, inputs, weights.input.t())  # (N, 4H): input, forget, cell, output
        states = gates.new_empty(len(gates), hidden)
        cells = torch.empty_like(states) if keep else None
        state = states.new_zeros(self.rows, hidden)
        memory = torch.zeros_like(state)
        product = repeated_product(weights.recurrent, None, self.rows)
        for block in self.blocks:
            rows = block.stop - block.start
            before, cell = state[:rows], memory[:rows]
            now = gates[block].add_(product(before))
            now[:, : 2 * hidden].sigmoid_()
            now[:, 2 * hidden : 3 * hidden].tanh_()
            now[:, 3 * hidden :].sigmoid_()
            enter, forget, candidate, leave = now.chunk(4, dim=1)
            cell.mul_(forget).addcmul_(enter, candidate)
            if cells is not None:
                cells[block] = cell
            torch.mul(leave, cell.tanh(), out=before)
            states[block] = before
        if cells is not None:
            self.kept = inputs, gates, cells, states.detach()
        return states

    def backward(self, outer: torch.Tensor) -> tuple[torch.Tensor, Weights]:
        """Compute the gradients of the gates step by step, then the gradients of all weights at once."""
        inputs, gates, cells, states = self.kept
        hidden, weights = self.hidden, self.weights
        cells_before = self.before(cells)
        kept = torch.empty_like(gates)
        carry = states.new_zeros(self.rows, hidden)
        memory = torch.zeros_like(carry)
        product = repeated_product(weights.recurrent.t(), None, self.rows)
        for block in reversed(self.blocks):
            rows = block.stop - block.start
            enter, forget, candidate, leave = gates[block].chunk(4, dim=1)
            d_enter, d_forget, d_candidate, d_leave = kept[block].chunk(4, dim=1)
            back, cell_back = carry[:rows], memory[:rows]
            back.add_(outer[block])
            squashed = cells[block].tanh()
            _sigmoid_backward(back * squashed, leave, grad_input=d_leave)
            cell_back.add_(torch.ops.aten.tanh_backward(back.mul_(leave), squashed))
            _sigmoid_backward(cell_back * candidate, enter, grad_input=d_enter)
            _sigmoid_backward(cell_back * cells_before[block], forget, grad_input=d_forget)
            _tanh_backward(cell_back * enter, candidate, grad_input=d_candidate)
            cell_back.mul_(forget)
            back.copy_(product(kept[block]))
        bias = kept.sum(0)
        return kept @ weights.input, Weights(kept.t() @ inputs, kept.t() @ self.before(states), bias, bias)


PASSES: dict[str, type[Pass]] = {"gru": GruPass, "lstm": LstmPass}
