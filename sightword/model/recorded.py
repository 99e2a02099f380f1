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
"""Calls with tensors of a shape before the function is recorded for it: recording takes as long as some ten calls."""


class Recorded:
    """A function that is recorded for each shape of its tensors where gradients are wanted on a GPU.

    What is recorded writes to the same memory each time. So from a call to its backward pass, and after a call without
    one, the function itself is called: with the same kernels, and the same bits.

    Args:
        function: maps tensors to one tensor; it waits for nothing, and uses no other tensors with gradients.
    """

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        self._function = function
        self._calls: Counter[Any] = Counter()
        self._graphs: dict[Any, Any] = {}
        self._pool = torch.cuda.graph_pool_handle() if torch.cuda.is_available() else None
        self._busy = False

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Return the function of tensors."""
        wanted = torch.is_grad_enabled() and any(one.requires_grad for one in tensors)
        if self._busy or not wanted or not all(one.is_cuda for one in tensors):
            return self._function(*tensors)
        shapes = tuple((one.shape, one.dtype, one.requires_grad) for one in tensors)
        self._calls[shapes] += 1
        if self._calls[shapes] <= CALLS:
            return self._function(*tensors)
        if shapes not in self._graphs:
            examples = tuple(torch.zeros_like(one).requires_grad_(one.requires_grad) for one in tensors)
            with warnings.catch_warnings():  # torch warns of a stream of its own, on which it warms up
                warnings.filterwarnings("ignore", "The AccumulateGrad node's stream does not match")
                self._graphs[shapes] = torch.cuda.make_graphed_callables(self._function, examples, pool=self._pool)
        found: torch.Tensor = self._graphs[shapes](*tensors)
        self._busy = True
        found.register_hook(self._done)  # type: ignore[no-untyped-call]  # torch gives it no types
        return found

    def _done(self, _: torch.Tensor) -> None:
        self._busy = False


LAYERS: weakref.WeakKeyDictionary[nn.Module, Recorded] = weakref.WeakKeyDictionary()


def recorded(function: Callable[..., torch.Tensor], layer: nn.Module) -> Recorded:
    """Return the recorded function of a layer; it is always the same function, which gets the layer before tensors."""
    if layer not in LAYERS:
        LAYERS[layer] = Recorded(partial(function, weakref.proxy(layer)))
    return LAYERS[layer]
