"""A GRU over the different beginnings of some sentences, on a CPU, with gradients by hand.

Sentences of a batch share beginnings: a fifth of SNLI's tokens come after a beginning that another sentence of the
batch has as well. The state after a beginning is the same in each, so it is computed once, and so are the inputs' part
of the gates for each different token, and the states' part for each beginning with several continuations. Gates, their
order and their biases are those of ``torch.nn.GRU`` and :class:`sightword.model.cells.GruPass`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.autograd.function import once_differentiable

from sightword.model.cells import Weights
from sightword.model.encoders import CaptionEncoder
from sightword.model.ngrams import NGrams
from sightword.model.products import repeated_product
from sightword.model.similarity import unit

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


@dataclass(frozen=True)
class Step:
    """The beginnings of one length, which are successive lines."""

    lines: slice
    """Their places among all N beginnings."""
    before: torch.Tensor
    """The beginnings that are one token shorter and go on, as places among all, ascending: int64 (B,)."""
    branch: torch.Tensor | None
    """For each line the place of its shorter beginning in ``before``, ascending; None where all have one each."""


@dataclass(frozen=True)
class Prefixes:
    """The different beginnings of U sentences, from the shortest to the longest: a tree."""

    tokens: torch.Tensor
    """The K different token ids: int64 (K,)."""
    places: torch.Tensor
    """The last token of each beginning, as a place in ``tokens``: int64 (N,)."""
    steps: list[Step]
    """One for each length, from 1."""
    ends: torch.Tensor
    """The line of each whole sentence: int64 (U,)."""

    @classmethod
    def of(cls, sentences: Sequence[NDArray[np.int64]]) -> Prefixes:
        """Return the beginnings of sentences with one token or more."""
        lengths = np.array([len(ids) for ids in sentences])
        padded = np.zeros((len(sentences), lengths.max()), np.int64)
        for row, ids in zip(padded, sentences, strict=True):
            row[: len(ids)] = ids
        height = int(padded.max()) + 1
        ends, node = np.zeros(len(sentences), np.int64), np.zeros(len(sentences), np.int64)
        tokens, steps, start = [], [], 0
        for place in range(padded.shape[1]):
            rows = np.flatnonzero(lengths > place)
            found, line_of = np.unique(node[rows] * height + padded[rows, place], return_inverse=True)
            above, last = np.divmod(found, height)
            before, branch = np.unique(above, return_inverse=True)
            lines = slice(start, start + len(found))
            split = torch.from_numpy(branch) if len(before) < len(found) else None
            steps.append(Step(lines, torch.from_numpy(before), split))
            node[rows] = start + line_of
            tokens.append(last)
            ends[rows] = node[rows]  # of a longer sentence the next step writes it again
            start = lines.stop
        different, places = np.unique(np.concatenate(tokens), return_inverse=True)
        return cls(torch.from_numpy(different), torch.from_numpy(places), steps, torch.from_numpy(ends))


def embed(captions: CaptionEncoder, sentences: Sequence[NDArray[np.int64]]) -> torch.Tensor:
    """Return what ``captions.embed`` returns, (U, width), for an encoder that :func:`fits`; last digits may differ.

    Under autocast the recurrent layer is computed in its type.
    """
    prefixes = Prefixes.of(sentences)
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else captions.embedding.weight.dtype
    inputs = captions.embedding(prefixes.tokens).to(dtype)
    weights = [weight.to(dtype) for weight in captions.recurrent.onward.parameters()]
    with torch.autocast("cpu", enabled=False):
        states: torch.Tensor = _Gru.apply(inputs, prefixes, *weights)  # type: ignore[no-untyped-call]  # torch gives it no type
        return unit(states, captions.similarity, scaled=captions.scaled)


def fits(captions: CaptionEncoder) -> bool:
    """Return whether :func:`embed` can encode: a GRU in one direction on a CPU, and its last state."""
    if isinstance(captions.embedding, NGrams):
        return False
    recurrent = captions.recurrent
    plain = recurrent.cell == "gru" and recurrent.backward_ is None
    return plain and getattr(captions.pooling, "name", "") == "last" and captions.embedding.weight.device.type == "cpu"


class _Gru(torch.autograd.Function):
    """Maps the embeddings of the tokens, (K, width), to the last states of the sentences, (U, H)."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, prefixes: Prefixes, *weights: torch.Tensor) -> torch.Tensor:
        own = Weights(*weights)
        hidden, steps = own.recurrent.shape[1], prefixes.steps
        table = torch.addmm(own.input_bias, inputs, own.input.t())  # (K, 3H): reset, update, new
        gates = table.index_select(0, prefixes.places)
        states, recurrent_new = (gates.new_empty(len(gates), hidden) for _ in range(2))
        starts = _starts(steps)
        before = gates.new_zeros(starts[-1], hidden)
        product = repeated_product(own.recurrent, own.recurrent_bias, _rows(steps))
        for number, step in enumerate(steps):
            shorter = before[starts[number] : starts[number + 1]]
            if number:
                torch.index_select(states, 0, step.before, out=shorter)
            from_state, earlier = product(shorter), shorter
            if step.branch is not None:
                from_state, earlier = (part.index_select(0, step.branch) for part in (from_state, shorter))
            recurrent = from_state[:, 2 * hidden :]
            recurrent_new[step.lines] = recurrent
            reset_update, new = gates[step.lines, : 2 * hidden], gates[step.lines, 2 * hidden :]
            reset_update.add_(from_state[:, : 2 * hidden]).sigmoid_()
            new.addcmul_(reset_update[:, :hidden], recurrent).tanh_()
            torch.lerp(new, earlier, reset_update[:, hidden:], out=states[step.lines])
        ctx.kept = inputs, prefixes, own, gates, recurrent_new, before
        return states.index_select(0, prefixes.ends)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, prefixes, own, gates, recurrent_new, before = ctx.kept
        hidden, steps, starts = own.recurrent.shape[1], prefixes.steps, _starts(prefixes.steps)
        carry = gates.new_zeros(len(gates), hidden).index_add_(0, prefixes.ends, outer)
        by_inputs = gates.new_empty(len(gates), 3 * hidden)  # new, reset, update
        by_states = gates.new_empty(len(before), 3 * hidden)  # reset, update, new: sums over continuations
        product = repeated_product(own.recurrent.t(), None, _rows(steps))
        for number, step in reversed(list(enumerate(steps))):
            shorter = before[starts[number] : starts[number + 1]]
            earlier = shorter if step.branch is None else shorter.index_select(0, step.branch)
            reset, update, new = gates[step.lines].chunk(3, dim=1)
            d_new, d_reset, d_update = by_inputs[step.lines].chunk(3, dim=1)
            back = carry[step.lines]
            _sigmoid_backward((earlier - new).mul_(back), update, grad_input=d_update)
            to_state = update * back
            _tanh_backward(back.sub_(to_state), new, grad_input=d_new)
            _sigmoid_backward(d_new * recurrent_new[step.lines], reset, grad_input=d_reset)
            to_gates = torch.cat((by_inputs[step.lines, hidden:], d_new * reset), dim=1)
            own_gates = by_states[starts[number] : starts[number + 1]]
            own_gates.copy_(_sums(to_gates, step.branch, len(own_gates)))
            if number:
                shares = product(own_gates).add_(_sums(to_state, step.branch, len(own_gates)))
                carry.index_add_(0, step.before, shares)
        by_tokens = _sums(by_inputs, prefixes.places, len(inputs))
        weights = (
            (by_tokens.t() @ inputs).roll(-hidden, 0),
            by_states.t() @ before,
            by_inputs.sum(0).roll(-hidden, 0),
            by_states.sum(0),
        )
        return by_tokens @ own.input.roll(hidden, 0), None, *weights


def _starts(steps: Sequence[Step]) -> list[int]:
    """Return the place of the first shorter beginning of each step among all steps', and the number of all."""
    return [0, *np.cumsum([len(step.before) for step in steps]).tolist()]


def _rows(steps: Sequence[Step]) -> int:
    return max(len(step.before) for step in steps)


def _sums(values: torch.Tensor, groups: torch.Tensor | None, count: int) -> torch.Tensor:
    """Return the sums (count, D) of the lines (N, D) of each group, added up in float32; None for one line each."""
    if groups is None:
        return values
    wide = torch.promote_types(values.dtype, torch.float32)
    return torch.zeros(count, values.shape[1], dtype=wide).index_add_(0, groups, values.to(wide)).to(values.dtype)
