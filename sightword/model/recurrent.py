"""The recurrent layer: one or two directions over packed rows of any lengths.

On a CPU: gradients by hand, and the two directions in parallel. Elsewhere: PyTorch's function, which is cuDNN's on
CUDA, with both directions in one call; in bfloat16 over padded rows, with a recorded call for each direction. A
recording is a function of tensors whose kernels a GPU starts by itself (CUDA graphs), forwards and backwards: a
recurrent layer has several kernels for each step, and a host takes longer to start one than a GPU to compute it.
"""

from __future__ import annotations

import logging
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from sightword.compute.threads import side_by_side
from sightword.model.cells import PASSES, Pass, Weights
from sightword.model.packing import Packing, Places
from sightword.model.shape import RecurrentCellName

log = logging.getLogger(__name__)

CALLS = 2
"""Calls with tensors of some shapes before the function is recorded for them: recording takes as long as ten calls."""
SHAPES = 32
"""The most recordings of a function: each keeps its own memory of inputs, results and gradients."""


class Recorded:
    """A function that is recorded for each shape of its tensors where gradients are wanted on a GPU.

    A recording writes to the same memory each time. So from a recorded call to its backward pass, or until its result
    is dropped without one, the function itself is called: with the same kernels, and the same bits. The next recorded
    call overwrites a result and its gradients, which callers copy. One thread at a time makes calls with gradients.
    A second backward pass of a call, such as after ``retain_graph``, would read what the first one overwrote: it is an
    AssertionError. Nothing is recorded where others save what autograd keeps, as ``torch.utils.checkpoint`` does.

    Args:
        function: maps tensors to one tensor; it waits for nothing, and uses no other tensors with gradients.
    """

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        self._function = function
        self._calls: Counter[Any] = Counter()
        self._graphs: dict[Any, Any] = {}
        self._pool = torch.cuda.graph_pool_handle() if torch.cuda.is_available() else None
        self._pending: weakref.ref[Any] | None = None
        """The node of the graph of autograd whose backward pass reads what the latest recorded call wrote."""

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Return the function of tensors."""
        wanted = torch.is_grad_enabled() and any(one.requires_grad for one in tensors)
        pending = self._pending is not None and self._pending() is not None
        hooked = torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
        if pending or hooked or not wanted or not all(one.is_cuda for one in tensors):
            return self._function(*tensors)
        shapes = tuple((one.shape, one.dtype, one.device, one.requires_grad) for one in tensors)
        if shapes not in self._graphs:
            self._calls[shapes] += 1
            if self._calls[shapes] <= CALLS or len(self._graphs) == SHAPES:
                return self._function(*tensors)
            examples = tuple(torch.zeros_like(one).requires_grad_(one.requires_grad) for one in tensors)
            with warnings.catch_warnings():  # torch warns of a stream of its own, on which it warms up
                warnings.filterwarnings("ignore", "The AccumulateGrad node's stream does not match")
                self._graphs[shapes] = torch.cuda.make_graphed_callables(self._function, examples, pool=self._pool)
            if len(self._graphs) == SHAPES:
                log.info("batches of %d shapes are recorded for the GPU; those of further shapes take longer", SHAPES)
        # The gradient of a leaf would be the recorded memory itself, to which autograd adds later ones.
        inputs = [one * 1 if one.is_leaf and one.requires_grad else one for one in tensors]
        found: torch.Tensor = self._graphs[shapes](*inputs)
        self._pending = weakref.ref(found.grad_fn)
        found.register_hook(partial(self._done, self._pending))  # type: ignore[no-untyped-call]  # no types in torch
        return found

    def _done(self, call: weakref.ref[Any], _: torch.Tensor) -> None:
        assert call is self._pending, "a recorded call has one backward pass, and it had one"
        self._pending = None


RECORDED: weakref.WeakKeyDictionary[nn.Module, Recorded] = weakref.WeakKeyDictionary()


def recorded(function: Callable[..., torch.Tensor], layer: nn.Module) -> Recorded:
    """Return the recorded function of a layer: one for each layer, called with the layer before the tensors."""
    if layer not in RECORDED:
        RECORDED[layer] = Recorded(partial(function, weakref.proxy(layer)))
    return RECORDED[layer]


Layer = nn.GRU | nn.LSTM
LAYERS: dict[str, type[Layer]] = {"gru": nn.GRU, "lstm": nn.LSTM}
PADDED = frozenset({torch.bfloat16})
"""The types in which a GPU computes a step faster than a host starts its kernels. PyTorch's function then gets padded
rows, in a call for each direction, since only such a call can be recorded."""
MOST_PADDED = 4
"""The most positions for each line, in rows padded to the longest; above it the rows are packed in all types."""
NAMES = ("weight_ih_l0", "weight_hh_l0"), ("bias_ih_l0", "bias_hh_l0")
"""The weights of a layer: matrices and biases."""


class Recurrent(nn.Module):
    """One recurrent layer.

    Args:
        width: numbers in each input vector.
        hidden: states of each direction.
        cell: ``gru`` or ``lstm``.
        bidirectional: read the rows backwards too.
    """

    def __init__(self, width: int, hidden: int, cell: RecurrentCellName, *, bidirectional: bool = True) -> None:
        super().__init__()
        self.cell = cell
        self.onward = LAYERS[cell](width, hidden, batch_first=True)
        self.backward_ = LAYERS[cell](width, hidden, batch_first=True) if bidirectional else None

    @property
    def layers(self) -> list[Layer]:
        """The layer of each direction."""
        return [self.onward, *([self.backward_] if self.backward_ is not None else [])]

    def forward(self, inputs: torch.Tensor, packing: Packing) -> torch.Tensor:
        """Compute the states of packed inputs (N, width): float (N, hidden), or (N, 2 * hidden) with the backward last.

        Under autocast everything is computed in its type.
        """
        kind = inputs.device.type
        inputs = inputs.to(torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else inputs.dtype)
        layers, blocks = self.layers, packing.blocks
        with torch.autocast(kind, enabled=False):
            if kind != "cpu":
                return states_by_torch(layers, inputs, packing.sizes)
            weights = [weight.to(inputs.dtype) for layer in layers for weight in layer.parameters()]
            states: tuple[torch.Tensor, ...] = _Directions.apply(  # type: ignore[no-untyped-call]  # torch gives it no types
                inputs, self.cell, [blocks, blocks[::-1]][: len(layers)], torch.is_grad_enabled(), *weights
            )
            return torch.cat(states, dim=1) if len(states) > 1 else states[0]


def states_by_torch(
    layers: Sequence[nn.RNNBase], lines: torch.Tensor, sizes: Sequence[int], start: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the states of packed lines, (N, H) or (N, 2H), by PyTorch's function on any device, in the lines' type.

    The weights are copied to that type, and autocast is off: torch's autocast computes cuDNN's recurrent layers in
    float16 whatever its type is, and without a scaled loss small gradients become 0 there.

    Args:
        layers: the layer of each direction, all GRUs or all LSTMs.
        lines: the inputs, (N, width).
        sizes: the number of lines of each step (:class:`sightword.model.packing.Packing`).
        start: the initial states (B, H) of one GRU, in the packing's order; zero by default.
    """
    hidden, rows = layers[0].hidden_size, sizes[0]
    first = lines.new_zeros(len(layers), rows, hidden) if start is None else start[None].to(lines.dtype)
    with torch.autocast(lines.device.type, enabled=False):
        if lines.dtype in PADDED and rows * len(sizes) <= MOST_PADDED * len(lines):
            return _padded_states(layers, lines, sizes, first)
        weights, counts = _parts(layers, _buffer(layers, lines.dtype)), torch.tensor(sizes)
        options = (weights, True, 1, 0.0, torch.is_grad_enabled(), len(layers) == 2)
        if layers[0].mode == "GRU":
            return torch.gru(lines, counts, first, *options)[0]
        return torch.lstm(lines, counts, (first, torch.zeros_like(first)), *options)[0]


def _buffer(layers: Sequence[nn.RNNBase], dtype: torch.dtype) -> torch.Tensor:
    """Return all weights in a type, in cuDNN's order, all matrices before all biases: any other cuDNN would copy."""
    kept = [getattr(layer, name).flatten() for kind in NAMES for layer in layers for name in kind]
    return torch.cat(kept).to(dtype)


def _parts(layers: Sequence[nn.RNNBase], buffer: torch.Tensor) -> list[torch.Tensor]:
    """Return the weights that a buffer holds, in the order of PyTorch's functions."""
    shapes = [getattr(layer, name).shape for kind in NAMES for layer in layers for name in kind]
    split = torch.split(buffer, [shape.numel() for shape in shapes])
    parts = [part.view(shape) for part, shape in zip(split, shapes, strict=True)]
    half = 2 * len(layers)
    return [part for place in range(0, half, 2) for at in (place, half + place) for part in parts[at : at + 2]]


def _padded_states(
    layers: Sequence[nn.RNNBase], lines: torch.Tensor, sizes: Sequence[int], first: torch.Tensor
) -> torch.Tensor:
    """Return the states (N, H) or (N, 2H) by a call over padded rows for each direction.

    Args:
        layers: the layer of each direction.
        lines: the inputs, (N, width).
        sizes: the number of lines of each step.
        first: the initial states, (layers, B, H).
    """
    found = []
    for layer, start, backwards in zip(layers, first[:, None], (False, True), strict=False):
        places, steps, rows = Places.of(sizes, lines.device, backwards=backwards)
        inputs = places.spread(lines).view(steps, rows, -1)
        states = recorded(_direction, layer)(inputs, start, _buffer([layer], lines.dtype))
        found.append(places.gather(states.flatten(0, 1)))
    return torch.cat(found, dim=1)


def _direction(layer: nn.RNNBase, inputs: torch.Tensor, first: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """Return the states (T, B, H) of a layer with the weights of a buffer."""
    options = (_parts([layer], buffer), True, 1, 0.0, torch.is_grad_enabled(), False, False)
    if layer.mode == "GRU":
        return torch.gru(inputs, first, *options)[0]
    return torch.lstm(inputs, (first, torch.zeros_like(first)), *options)[0]


class _Directions(torch.autograd.Function):
    """One or two directions over the same inputs, in parallel."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        cell: str,
        directions: Sequence[Sequence[slice]],
        keep: bool,
        *weights: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        each = len(weights) // len(directions)
        passes: list[Pass] = [
            PASSES[cell](Weights(*weights[number * each : (number + 1) * each]), blocks)
            for number, blocks in enumerate(directions)
        ]
        ctx.passes = passes
        return tuple(side_by_side([partial(one.forward, inputs, keep=keep) for one in passes], size=passes[0].size))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        works = [partial(one.backward, grad) for one, grad in zip(ctx.passes, outer, strict=True)]
        found = side_by_side(works, size=ctx.passes[0].size)
        inputs = found[0][0] if len(found) == 1 else found[0][0] + found[1][0]
        return inputs, None, None, None, *(weights for _, each in found for weights in each)
