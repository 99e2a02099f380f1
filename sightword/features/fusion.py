"""A network made ready to infer: batch norm folded, and oneDNN's fused convolutions on a CPU.

On a CPU a third of an image network's time goes into reading and writing its own
intermediate results. oneDNN adds the residual and cuts at zero while the result of
a convolution is still in the cache, and takes weights that were laid out once.
The numbers differ from the plain network's in the last bits of float32.
"""

from __future__ import annotations

import logging
import operator
from functools import partial
from typing import Any

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from sightword.features.settings import Precision

log = logging.getLogger(__name__)

_CUTS = (nn.functional.relu, torch.relu, torch.relu_)
_FUSIBLE = (nn.Conv2d, nn.BatchNorm2d)


class FusedConvolution(nn.Module):
    """A convolution with what follows it, as one call to oneDNN.

    Args:
        convolution: with any batch norm folded in.
        relu: cut the result at zero.
        dtype: of the weights, the input and the result.
    """

    def __init__(self, convolution: nn.Conv2d, *, relu: bool, dtype: torch.dtype) -> None:
        super().__init__()
        padding, stride, dilation = convolution.padding, convolution.stride, convolution.dilation
        self.geometry = (list(padding), list(stride), list(dilation), convolution.groups)
        self.weight = convolution.weight.detach().to(dtype)
        # In bfloat16 a folded mean would be rounded, which shifts a whole channel.
        self.bias = None if convolution.bias is None else convolution.bias.detach().float()
        self.relu = relu
        self.dtype = dtype
        self._laid_out = False

    def forward(self, images: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """(B, C, H, W) in channels-last order; a residual of the result's shape is added before the cut."""
        images = images.to(self.dtype)
        if not self._laid_out:
            self.weight = torch.ops.mkldnn._reorder_convolution_weight(self.weight, *self.geometry, list(images.shape))
            self._laid_out = True
        if residual is not None and self.dtype == torch.float32:
            after = "relu" if self.relu else None
            total: torch.Tensor = torch.ops.mkldnn._convolution_pointwise.binary(
                images, residual, self.weight, self.bias, *self.geometry, "add", 1.0, after, [], ""
            )
            return total
        # With bfloat16 oneDNN's addition in the same call takes no float32 bias.
        after = "relu" if self.relu and residual is None else "none"
        found: torch.Tensor = torch.ops.mkldnn._convolution_pointwise(
            images, self.weight, self.bias, *self.geometry, after, [], ""
        )
        if residual is not None:
            found = found.add_(residual)
            found = found.relu_() if self.relu else found
        return found


class FullConvolution(nn.Module):
    """A convolution that computes in float32 whatever the precision around it."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) to the same, float32."""
        with torch.autocast(images.device.type, enabled=False):
            found: torch.Tensor = self.convolution(images.float())
            return found


class _Tracer(fx.Tracer):
    """Trace a network by changing modules of this network only.

    ``fx.symbolic_trace`` replaces methods of ``nn.Module`` while it traces: a network that another thread runs at
    that time fails.
    """

    def follow(self, network: nn.Module) -> fx.Graph:
        """Return the graph of the network's calls.

        Raises:
            TraceError: the calls depend on the input.
        """
        self.root, self.graph, self.tensor_attrs = network, fx.Graph(tracer_cls=type(self)), {}
        images = self.create_proxy("placeholder", "images", (), {})
        notes: list[tuple[nn.Module, str, Any]] = []
        for name, module in network.named_modules():
            if name and self._is_end(module):
                notes.append((module, "forward", partial(self._note, name)))
                continue
            for parameter, _ in module.named_parameters(prefix=name, recurse=False):
                proxy = self.create_proxy("get_attr", parameter, (), {})
                notes.append((module, parameter.rpartition(".")[2], proxy))
        try:
            for module, attribute, note in notes:
                vars(module)[attribute] = note  # found before the method of the class, and before parameters
            found = network(images)
            self.create_node("output", "output", (self.create_arg(found),), {})
        finally:
            for module, attribute, _ in notes:
                vars(module).pop(attribute, None)
        return self.graph

    def _note(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.create_proxy("call_module", name, args, kwargs)

    def _is_end(self, module: nn.Module) -> bool:
        """Whether a module is one call in the graph: a layer of torch's, or one with nothing in it to fold or fuse."""
        return self.is_leaf_module(module, "") or not any(isinstance(part, _FUSIBLE) for part in module.modules())


def ready(network: nn.Module, *, precision: Precision, device: torch.device) -> nn.Module:
    """Fold, fuse and move a network; the one given is used up.

    With ``bf16`` the weights of convolutions and linear layers become bfloat16, but for the
    first convolution: an even area of a picture, such as a night sky, holds one value that
    bfloat16 rounds the same way everywhere, and nothing evens that out. (It moved a photograph
    that is mostly black to a cosine of 0.9989 with DenseNet-169; without it, 0.99998.)

    Args:
        network: in evaluation mode.
        precision: ``fp32`` or ``bf16``.
        device: where it will work.

    Returns:
        The network on the device, in channels-last order. One that cannot be traced
        is not folded.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    first = next((name for name, module in network.named_modules() if isinstance(module, nn.Conv2d)), "")
    fused = device.type == "cpu" and fuses(precision)
    if fused or precision == "fp32":  # a folded bias needs float32, which only the fused call keeps
        traced = _trace(network)
        if traced is not None:
            traced = _fold(traced)
            network = _fuse(traced, dtype, first) if fused else traced
    if precision == "bf16":
        for name, module in list(network.named_modules()):
            if name == first and isinstance(module, nn.Conv2d):
                network.set_submodule(name, FullConvolution(module))
            elif isinstance(module, nn.Conv2d | nn.Linear):
                module.to(dtype)
    # torch's annotations lack this pair of arguments.
    network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack both
    return network.eval()


def has_bfloat16_units() -> bool:
    """Return whether this CPU computes with bfloat16 and does not emulate it."""
    return bool(_has_onednn() and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def fuses(precision: Precision) -> bool:
    """Whether a CPU's convolutions are fused here; where not, the numbers are others in the last bits."""
    return _has_onednn() and (precision == "fp32" or has_bfloat16_units())


def _trace(network: nn.Module) -> fx.GraphModule | None:
    """The network as a graph; None where its way depends on its input. All of torchvision's classifiers have one."""
    try:
        return fx.GraphModule(network, _Tracer().follow(network))
    except (fx.proxy.TraceError, TypeError) as error:  # a shape that is no number yet is a TypeError
        log.warning("%s cannot be traced (%s): its features take longer", type(network).__name__, error)
        return None


def _fold(traced: fx.GraphModule) -> fx.GraphModule:
    """Each batch norm whose input is a convolution used by nothing else becomes part of that convolution."""
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        norm, before = _module(node, modules), node.args[0] if node.args else None
        if not isinstance(norm, nn.BatchNorm2d) or not isinstance(before, fx.Node) or len(before.users) > 1:
            continue
        convolution = _module(before, modules)
        if type(convolution) is nn.Conv2d and norm.track_running_stats:
            folded = fuse_conv_bn_eval(convolution, norm)
            modules[str(before.target)] = folded
            traced.set_submodule(str(before.target), folded)
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    return _finished(traced)


def _fuse(traced: fx.GraphModule, dtype: torch.dtype, first: str) -> fx.GraphModule:
    """Replace convolutions, with the addition and the ReLU that follow, by fused ones; the first in float32."""
    modules = dict(traced.named_modules())
    calls: dict[str, int] = {}
    for node in traced.graph.nodes:
        calls[str(node.target)] = calls.get(str(node.target), 0) + 1
    for node in list(traced.graph.nodes):
        convolution = _module(node, modules)
        if not _fits(convolution) or calls[str(node.target)] > 1:
            continue
        assert isinstance(convolution, nn.Conv2d)
        last, residual = _added(node, modules)
        after = _only_user(last)
        relu = after is not None and _is_cut(after, modules)
        if relu and after is not None:
            last = after
        own = torch.float32 if node.target == first else dtype
        traced.set_submodule(str(node.target), FusedConvolution(convolution, relu=relu, dtype=own))
        if last is node:
            continue
        with traced.graph.inserting_before(last):
            arguments = (node.args[0],) if residual is None else (node.args[0], residual)
            fused = traced.graph.call_module(str(node.target), arguments)
        last.replace_all_uses_with(fused)
    return _finished(traced)


def _added(node: fx.Node, modules: dict[str, nn.Module]) -> tuple[fx.Node, fx.Node | None]:
    """The sum, then cut at zero, that is all a convolution's result is used for, and what is added; else the node."""
    total = _only_user(node)
    if total is None or total.target not in (operator.add, operator.iadd) or len(total.args) != 2:
        return node, None
    one, other = total.args
    residual = other if one is node else one
    in_place_on_another = total.target is operator.iadd and one is not node
    cut = _only_user(total)
    if not isinstance(residual, fx.Node) or residual is node or in_place_on_another or cut is None:
        return node, None
    return (total, residual) if _is_cut(cut, modules) else (node, None)


def _is_cut(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    return isinstance(_module(node, modules), nn.ReLU) or (node.op == "call_function" and node.target in _CUTS)


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _fits(module: nn.Module | None) -> bool:
    """Whether oneDNN's fused call does the same as this convolution."""
    return type(module) is nn.Conv2d and module.padding_mode == "zeros" and not isinstance(module.padding, str)


def _module(node: fx.Node, modules: dict[str, nn.Module]) -> nn.Module | None:
    return modules.get(str(node.target)) if node.op == "call_module" else None


def _finished(traced: fx.GraphModule) -> fx.GraphModule:
    traced.graph.eliminate_dead_code()
    traced.graph.lint()
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def _has_onednn() -> bool:
    there = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch does not annotate it
    return bool(there) and hasattr(torch.ops.mkldnn, "_convolution_pointwise")
