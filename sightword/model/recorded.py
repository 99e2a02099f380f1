"""A function of tensors whose kernels a GPU starts by itself (CUDA graphs), forwards and backwards.

A recurrent layer has several kernels for each step, and a host takes longer to start one than a GPU to compute it.
"""

from __future__ import annotations

import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

CALLS = 2
"""Calls with tensors of some shapes before the function is recorded for them: recording takes as long as ten calls."""
SHAPES = 32
"""The most recordings of a function: each keeps its own memory of inputs, results and gradients."""


class Recorded:
    """A function that is recorded for each shape of its tensors where gradients are wanted on a GPU.

    A recording writes to the same memory each time. So from a recorded call to its backward pass, or until its result
    is dropped without one, the function itself is called: with the same kernels, and the same bits. The next recorded
    call overwrites a result and its gradients, which callers copy. One thread at a time makes calls with gradients.

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
        if pending or not wanted or not all(one.is_cuda for one in tensors):
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
        # The gradient of a leaf would be the recorded memory itself, to which autograd adds later ones.
        inputs = [one * 1 if one.is_leaf and one.requires_grad else one for one in tensors]
        found: torch.Tensor = self._graphs[shapes](*inputs)
        self._pending = weakref.ref(found.grad_fn)
        found.register_hook(self._done)  # type: ignore[no-untyped-call]  # torch gives it no types
        return found

    def _done(self, _: torch.Tensor) -> None:
        self._pending = None


RECORDED: weakref.WeakKeyDictionary[nn.Module, Recorded] = weakref.WeakKeyDictionary()


def recorded(function: Callable[..., torch.Tensor], layer: nn.Module) -> Recorded:
    """Return the recorded function of a layer: one for each layer, called with the layer before the tensors."""
    if layer not in RECORDED:
        RECORDED[layer] = Recorded(partial(function, weakref.proxy(layer)))
    return RECORDED[layer]
