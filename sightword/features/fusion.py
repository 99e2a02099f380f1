"""Prepares a network for inference: batch norm is folded or fused, and oneDNN computes the layers on a CPU.

oneDNN adds the residual and applies the ReLU while the result of a convolution is in the cache, which saves a third of
the time. torch gives float32 linear layers to MKL, which takes twice oneDNN's time on CPUs of AMD. The numbers differ
from the plain network's in the last bits of float32.
"""

from __future__ import annotations

import itertools
import logging
import operator
from collections import Counter
from functools import partial
from typing import Any, TypeGuard, cast

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from sightword.features.settings import Precision

log = logging.getLogger(__name__)

_RELUS = (nn.functional.relu, torch.relu, torch.relu_)
_FUSIBLE = (nn.Conv2d, nn.BatchNorm2d)


class FusedConvolution(nn.Module):
    """A convolution with the following addition and ReLU, as one call of oneDNN, all in one type of numbers."""

    def __init__(self, convolution: nn.Conv2d, *, relu: bool, dtype: torch.dtype) -> None:
        super().__init__()
        shifts = (convolution.padding, convolution.stride, convolution.dilation)
        self.geometry = (*map(list, shifts), convolution.groups)
        self.weight = convolution.weight.detach().to(dtype)
        # In bfloat16 a folded mean would be rounded, which shifts a whole channel.
        self.bias = None if convolution.bias is None else convolution.bias.detach().float()
        self.relu = relu
        self.dtype = dtype
        self.channels = convolution.out_channels
        self.overwrites = False
        """Whether nothing reads the residual afterwards, so that the sum may take its memory."""
        self._laid_out = False

    def forward(self, images: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Convolve images (B, C, H, W), channels last in memory, and add a residual of the result's shape."""
        images = images.to(self.dtype)
        if not self._laid_out:
            self.weight = torch.ops.mkldnn._reorder_convolution_weight(self.weight, *self.geometry, list(images.shape))
            self._laid_out = True
        if residual is not None and self.dtype == torch.float32:
            after = "relu" if self.relu else None
            summed: tuple[Any, ...] = (self.weight, self.bias, *self.geometry, "add", 1.0, after, [], "")
            if self.overwrites and residual.shape == (images.shape[0], self.channels, *images.shape[2:]):
                return cast("torch.Tensor", torch.ops.mkldnn._convolution_pointwise_.binary(residual, images, *summed))
            return cast("torch.Tensor", torch.ops.mkldnn._convolution_pointwise.binary(images, residual, *summed))
        # With bfloat16 oneDNN's addition in the same call takes no float32 bias.
        after = "relu" if self.relu and residual is None else "none"
        found: torch.Tensor = torch.ops.mkldnn._convolution_pointwise(
            images, self.weight, self.bias, *self.geometry, after, [], ""
        )
        if residual is None:
            return found
        found = found.add_(residual)
        return found.relu_() if self.relu else found


class FusedLinear(nn.Module):
    """A linear layer as a call of oneDNN, all in one type of numbers; the weight stays as other code may read it."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = linear.weight.detach().to(dtype)
        self.bias = None if linear.bias is None else linear.bias.detach().float()

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Map rows (.., inputs) to (.., outputs)."""
        found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            rows.to(self.weight.dtype), self.weight, self.bias, "none", [], ""
        )
        return found


class FullConvolution(nn.Module):
    """A convolution that computes in float32, also within bfloat16 autocast."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Convolve images (B, C, H, W); returns float32."""
        with torch.autocast(images.device.type, enabled=False):
            found: torch.Tensor = self.convolution(images.float())
            return found


class _Tracer(fx.Tracer):
    """Traces a network and changes modules of this network only.

    ``fx.symbolic_trace`` replaces methods of ``nn.Module`` while it traces, so that a network of another thread fails.
    """

    def follow(self, network: nn.Module) -> fx.Graph:
        """Return the graph of the network's calls; TraceError if the calls depend on the input."""
        self.root, self.graph, self.tensor_attrs = network, fx.Graph(tracer_cls=type(self)), {}
        images = self.create_proxy("placeholder", "images", (), {})
        notes: list[tuple[nn.Module, str, Any]] = []
        for name, module in network.named_modules():
            # One call in the graph is a layer of torch, or a module without convolutions.
            if name and (self.is_leaf_module(module, "") or not any(isinstance(m, _FUSIBLE) for m in module.modules())):
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


def ready(network: nn.Module, *, precision: Precision, device: torch.device) -> nn.Module:
    """Fold, fuse and move a network; the given network is changed.

    With ``bf16`` the weights of convolutions and linear layers become bfloat16, except the first convolution: an even
    area of a picture, such as a night sky, has a single value, whose rounding error does not average out. (With
    DenseNet-169 a mostly black photograph had a cosine of 0.9989 to its float32 features, and 0.99998 with this
    exception.) On a GPU batch norms are then fused (:mod:`sightword.features.norms`); where Triton does not work they
    are torch's. The result is channels last in memory. A network that cannot be traced is not folded, and its batch
    norms are not fused.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    first = next((name for name, module in network.named_modules() if isinstance(module, nn.Conv2d)), "")
    fused = device.type == "cpu" and fuses(precision, device)
    folded = fused or precision == "fp32"  # a folded bias needs float32, which only the fused call keeps
    normed = not folded and any(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    if folded or (normed and fuses(precision, device)):
        traced = _trace(network)
        if traced is not None:
            if folded:
                _fold(traced)
            else:
                _fuse_norms(traced)
            if fused:
                _fuse(traced, dtype, first)
            traced.graph.eliminate_dead_code()
            traced.graph.lint()
            traced.delete_all_unused_submodules()
            traced.recompile()
            network = traced
    for name, module in list(network.named_modules()) if fused else ():
        if type(module) is nn.Linear and name:
            network.set_submodule(name, FusedLinear(module, dtype))
    if precision == "bf16":
        for name, module in list(network.named_modules()):
            if name == first and isinstance(module, nn.Conv2d):
                network.set_submodule(name, FullConvolution(module))
            elif isinstance(module, nn.Conv2d | nn.Linear):
                module.to(dtype)
    network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack both
    return network.eval()


def fuses(precision: Precision, device: torch.device) -> bool:
    """Return whether a device has the fused kernels of a precision; otherwise the last bits of the numbers differ."""
    if device.type == "cpu":
        there = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch does not annotate it
        able = bool(there) and hasattr(torch.ops.mkldnn, "_convolution_pointwise")
        return able and (precision == "fp32" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))
    if precision == "fp32":
        return True
    from sightword.features import norms  # loads Triton

    return norms.usable(device)


def _trace(network: nn.Module) -> fx.GraphModule | None:
    """Return the network as a graph; None if its calls depend on the input, as in no classifier of torchvision."""
    try:
        return fx.GraphModule(network, _Tracer().follow(network))
    except (fx.proxy.TraceError, TypeError) as error:  # TypeError: a shape without a number yet
        log.warning("%s cannot be traced (%s): its features take longer", type(network).__name__, error)
        return None


def _fold(traced: fx.GraphModule) -> None:
    """Fold each batch norm into the convolution before it, if nothing else uses the convolution's result."""
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        norm, before = _module(node, modules), node.args[0] if node.args else None
        if not isinstance(norm, nn.BatchNorm2d) or not isinstance(before, fx.Node) or len(before.users) > 1:
            continue
        convolution = _module(before, modules)
        if type(convolution) is nn.Conv2d and norm.track_running_stats:
            modules[str(before.target)] = folded = fuse_conv_bn_eval(convolution, norm)
            traced.set_submodule(str(before.target), folded)
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.graph.eliminate_dead_code()


def _fuse_norms(traced: fx.GraphModule) -> None:
    """Replace batch norms, with the following addition and ReLU, by fused ones."""
    from sightword.features.norms import FusedNorm

    _join(traced)
    modules = dict(traced.named_modules())
    calls = Counter(str(node.target) for node in traced.graph.nodes)
    for node in list(traced.graph.nodes):
        name, norm = str(node.target), _module(node, modules)
        if not isinstance(norm, nn.BatchNorm2d) or not norm.track_running_stats or calls[name] > 1:
            continue
        last, residual, relu = _following(node, modules)
        traced.set_submodule(name, FusedNorm(norm, relu=relu))
        _replace(traced, node, last, residual)


def _join(traced: fx.GraphModule) -> None:
    """Write results that growing concatenations read, as in DenseNet's blocks, side by side in one memory."""
    from sightword.features.norms import begin, write

    modules = dict(traced.named_modules())
    groups: dict[fx.Node, list[tuple[fx.Node, list[Any]]]] = {}
    for node in traced.graph.nodes:
        parts = node.args[0] if node.args else None
        if node.target is torch.cat and node.args[1:] == (1,) and isinstance(parts, list):
            groups.setdefault(parts[0], []).append((node, list(parts)))
    for first, cats in groups.items():
        cats.sort(key=lambda one: len(one[1]))
        parts = cats[-1][1]
        convolutions = [_module(part, modules) for part in parts[1:]]
        users = [_only_user(cat) for cat, _ in cats]
        norms = [user and _module(user, modules) for user in users]
        sizes = [one.out_channels for one in convolutions if isinstance(one, nn.Conv2d)]
        channels = [one.num_features for one in norms if isinstance(one, nn.BatchNorm2d)]
        if (
            len(cats) < 3
            or len(sizes) < len(convolutions)
            or len(channels) < len(norms)
            or any(some != parts[: len(some)] for _, some in cats)
            or not all(one < other for one, other in itertools.pairwise(parts))
        ):
            continue
        ends = [channels[-1] - sum(sizes[at:]) for at in range(len(parts))]  # of the channels of each part
        with traced.graph.inserting_after(first):
            written = [traced.graph.call_function(begin, (first, channels[-1]))]
        for part, start in zip(parts[1:], ends, strict=False):
            with traced.graph.inserting_after(part):
                written.append(traced.graph.call_function(write, (written[-1], part, start)))
        for cat, some in cats:
            with traced.graph.inserting_before(cat):
                at = len(some) - 1
                cat.replace_all_uses_with(traced.graph.call_method("narrow", (written[at], 1, 0, ends[at])))
            traced.graph.erase_node(cat)


def _fuse(traced: fx.GraphModule, dtype: torch.dtype, first: str) -> None:
    """Replace convolutions, with the following addition and ReLU, by fused ones; the first computes in float32."""
    modules = dict(traced.named_modules())
    spent: dict[FusedConvolution, tuple[fx.Node, fx.Node]] = {}
    calls = Counter(str(node.target) for node in traced.graph.nodes)
    for node in list(traced.graph.nodes):
        name, convolution = str(node.target), _module(node, modules)
        if type(convolution) is not nn.Conv2d or calls[name] > 1:
            continue
        if convolution.padding_mode != "zeros" or isinstance(convolution.padding, str):  # oneDNN has zeros only
            continue
        last, residual, relu = _following(node, modules)
        own = torch.float32 if name == first else dtype
        modules[name] = found = FusedConvolution(convolution, relu=relu, dtype=own)
        traced.set_submodule(name, found)
        fused = _replace(traced, node, last, residual)
        if residual not in (None, node.args[0]) and _keeps_size(convolution):
            spent[found] = (residual, fused)
    traced.graph.eliminate_dead_code()  # after this a convolution stands once
    for found, (residual, fused) in spent.items():
        users = [user for user in residual.users if user is not fused]
        found.overwrites = all(
            isinstance(_module(node, modules), FusedConvolution) for node in (residual, *users)
        ) and all(user < fused for user in users)


def _keeps_size(convolution: nn.Conv2d) -> bool:
    added = [2 * side for side in convolution.padding if isinstance(side, int)]
    steps = {*convolution.stride, *convolution.dilation}
    return steps == {1} and [side - 1 for side in convolution.kernel_size] == added


def _following(node: fx.Node, modules: dict[str, nn.Module]) -> tuple[fx.Node, fx.Node | None, bool]:
    """Return the last of a layer, its addition and its ReLU; the residual, if any; and whether a ReLU is there."""
    last, residual = _added(node, modules)
    after = _only_user(last)
    return (after, residual, True) if _is_relu(after, modules) else (last, residual, False)


def _replace(traced: fx.GraphModule, node: fx.Node, last: fx.Node, residual: fx.Node | None) -> fx.Node:
    """Let a layer take a residual and stand for all up to the last; returns the layer's node."""
    if last is node:
        return node
    with traced.graph.inserting_before(last):
        arguments = (node.args[0],) if residual is None else (node.args[0], residual)
        fused = traced.graph.call_module(str(node.target), arguments)
    last.replace_all_uses_with(fused)
    return fused


def _added(node: fx.Node, modules: dict[str, nn.Module]) -> tuple[fx.Node, fx.Node | None]:
    """Return the sum before a ReLU, if a layer's only use, and its other summand; else the layer."""
    total = _only_user(node)
    if total is None or total.target not in (operator.add, operator.iadd) or len(total.args) != 2:
        return node, None
    one, other = total.args
    residual = other if one is node else one
    in_place_on_another = total.target is operator.iadd and one is not node
    if not isinstance(residual, fx.Node) or residual is node or in_place_on_another:
        return node, None
    return (total, residual) if _is_relu(_only_user(total), modules) else (node, None)


def _is_relu(node: fx.Node | None, modules: dict[str, nn.Module]) -> TypeGuard[fx.Node]:
    return node is not None and (
        isinstance(_module(node, modules), nn.ReLU) or (node.op == "call_function" and node.target in _RELUS)
    )


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _module(node: fx.Node, modules: dict[str, nn.Module]) -> nn.Module | None:
    return modules.get(str(node.target)) if node.op == "call_module" else None
