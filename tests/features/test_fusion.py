"""A network made ready to infer gives the plain network's numbers."""

from __future__ import annotations

import contextlib
import copy
from types import SimpleNamespace

import pytest
import torch
from extracting import difference, distance, lively, pictures
from torch import nn

from sightword.features import fusion, norms
from sightword.features.fusion import FusedConvolution, FusedLinear, ready
from sightword.features.norms import FusedNorm

CPU = torch.device("cpu")


SMALL = ["densenet121", "mobilenet_v3_small", "resnet18", "shufflenet_v2_x0_5"]


LARGE = ["alexnet", "convnext_tiny", "googlenet", "squeezenet1_1", "efficientnet_b0",
         "inception_v3", "maxvit_t", "mnasnet0_5", "mobilenet_v2",
         "regnet_y_400mf", "resnext50_32x4d", "swin_t", "vgg11_bn", "vit_b_32", "wide_resnet50_2"]  # fmt: skip


def compare(name: str) -> None:
    """The fast network is as near to float64 as the plain one, whose rounding deep random networks blow up."""
    network, images = lively(name), pictures(name)
    with torch.inference_mode():
        exact = copy.deepcopy(network).double()(images.double()).flatten(1)
        plain = difference(exact, network(images).flatten(1))
        fast = ready(copy.deepcopy(network), precision="fp32", device=CPU)(images).flatten(1)
        assert difference(exact, fast) < 3 * plain + 1e-6
        assert difference(exact, fast.flip(0)) > 100 * (plain + 1e-6)  # the control: another picture's numbers
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = distance(exact, network(images))
            half = distance(exact, ready(copy.deepcopy(network), precision="bf16", device=CPU)(images))
    assert difference(exact, fast) / 10 < half < 2 * rounded + 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_families_of_networks(name) -> None:
    compare(name)


@pytest.mark.full
@pytest.mark.parametrize("name", LARGE)
def test_more_families_of_networks(name) -> None:
    compare(name)


@pytest.mark.parametrize("onednn", [True, False])
def test_even_areas_are_not_rounded(onednn, monkeypatch) -> None:
    """A value that bfloat16 does not hold, all over the picture: the first convolution must see it as it is."""
    if not onednn:
        monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: False)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    exact, images = copy.deepcopy(network[0]), torch.full((1, 3, 16, 16), 1.003)
    first = next(iter(ready(network, precision="bf16", device=CPU).children()))
    with torch.inference_mode():
        wanted = exact(images).relu()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found, rounded = first(images).relu(), exact(images).relu()
    assert difference(wanted, found) < 1e-6
    assert difference(wanted, rounded.float()) > 1e-3  # the control: what bfloat16 alone makes of it


class Shared(nn.Module):
    """What must not be fused: results used twice, sums that are not cut, sums in place of another."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))
        self.norm = nn.BatchNorm2d(3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = self.one(images)
        normal = self.norm(first)  # first is used below, so this cannot be folded
        second = torch.relu(self.two(first) + normal)
        second += self.three(second)
        again = self.two(second)  # one convolution called twice
        return torch.relu(again - first) + second


def test_what_cannot_be_fused_is_left_alone() -> None:
    torch.manual_seed(0)
    network = Shared().eval()
    network.norm.running_mean.normal_()
    images = torch.randn(2, 3, 8, 8)
    with torch.inference_mode():
        plain = network(images)
        fast = ready(copy.deepcopy(network), precision="fp32", device=CPU)
        assert difference(plain, fast(images)) < 1e-5
    assert any(isinstance(module, FusedConvolution) for module in fast.modules())


class Residual(nn.Module):
    """A sum whose summand nothing reads ``again``, a later addition does, or the convolution itself does."""

    def __init__(self, again: str) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))
        self.again = again

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self.one(images))
        total = torch.relu(self.two(first if self.again == "itself" else self.three(first)) + first)
        return total + first if self.again == "later" else total


@pytest.mark.parametrize("again", ["", "later", "itself"])
def test_a_residual_is_overwritten_where_nothing_reads_it_again(again) -> None:
    torch.manual_seed(0)
    network, images = Residual(again).eval(), torch.randn(2, 4, 8, 8)
    with torch.inference_mode():
        plain = network(images)
        fast = ready(copy.deepcopy(network), precision="fp32", device=CPU)
        assert difference(plain, fast(images)) < 1e-5
    assert fast.get_submodule("two").overwrites is not bool(again)


def test_linear_layers_are_computed_by_onednn() -> None:
    """Also for rows that are not contiguous, and where other code reads the weight, as Swin does."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3, bias=False)).eval()
    rows = torch.randn(5, 2, 4).permute(1, 2, 0)
    with torch.inference_mode():
        fast = ready(copy.deepcopy(network), precision="fp32", device=CPU)
        assert difference(network(rows), fast(rows)) < 1e-6
        read = nn.functional.linear(rows, fast.get_submodule("0").weight)
        assert torch.equal(read, nn.functional.linear(rows, network[0].weight))
    assert sum(isinstance(module, FusedLinear) for module in fast.modules()) == 2


class Untraceable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.convolution(images) if images.sum() > 0 else self.convolution(-images)


def test_a_network_that_cannot_be_traced_works_as_it_is() -> None:
    network = Untraceable().eval()
    images = torch.rand(1, 3, 8, 8)
    with torch.inference_mode():
        assert difference(network(images), ready(copy.deepcopy(network), precision="fp32", device=CPU)(images)) < 1e-5


@pytest.fixture
def on_a_cpu(monkeypatch) -> None:
    """Plain torch computes what the kernel does."""

    def launch(x, residual, scale, shift, out, *, relu) -> None:
        found = x.float() * scale[:, None, None] + shift[:, None, None]
        found = found if residual is None else found + residual.float()
        out.copy_(found.relu() if relu else found)

    monkeypatch.setattr(norms, "_launch", launch)


def with_fused_norms(network: nn.Module) -> nn.Module:
    """What ``ready`` makes of batch norms for a GPU."""
    traced = fusion._trace(copy.deepcopy(network))
    fusion._fuse_norms(traced)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    return traced


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("resnet18", 20), ("densenet121", 121)])
def test_a_network_with_fused_norms_rounds_no_more_than_the_plain_one(on_a_cpu, name, count) -> None:
    network, images = lively(name), pictures(name)
    fused = with_fused_norms(network)
    kinds = [type(module) for module in fused.modules()]
    assert kinds.count(FusedNorm) == count
    assert nn.BatchNorm2d not in kinds
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        exact = copy.deepcopy(network).double()(images.double()).flatten(1)
        found = fused(images)
        assert distance(exact, found) < 1.5 * distance(exact, network(images)) + 1e-5
        assert distance(exact, found.flip(0)) > 10 * distance(exact, found)  # the control: another picture's numbers


def test_a_dense_block_reads_and_writes_one_memory_in_bfloat16(on_a_cpu) -> None:
    """The first convolution computes in float32, and a concatenation would take the widest type of its parts."""
    network, seen = with_fused_norms(lively("densenet121")), []
    for layer in (1, 2, 6):
        norm = network.get_submodule(f"network.features.denseblock1.denselayer{layer}.norm1")
        norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        network(pictures("densenet121"))
    assert [part.shape[1] for part in seen] == [64, 96, 224]
    assert {part.dtype for part in seen} == {torch.bfloat16}
    assert len({part.data_ptr() for part in seen}) == 1


class Normed(nn.Module):
    """A norm that is called twice, sums of other shapes, a norm of batches' own statistics, and long concatenations."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(4))
        self.one, self.two, self.three, self.wide = (nn.BatchNorm2d(size) for size in (4, 4, 4, 12))
        self.own = nn.BatchNorm2d(4, track_running_stats=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self.one(self.convolutions[0](images)))
        second = self.one(self.convolutions[1](first))
        third = torch.relu(self.two(second) + first.mean((2, 3), keepdim=True))
        fourth = torch.relu(self.three(third.mean((2, 3), keepdim=True)) + third)
        fifth = self.own(self.convolutions[2](fourth))
        parts = [fourth, fifth, self.convolutions[3](first)]
        others = torch.cat(parts[:1], 1).mean() + torch.cat(parts[:2], 1).mean()
        return (self.wide(torch.cat(parts, 1)) + others).flatten(1)


def test_norms_that_no_kernel_computes_are_left_alone(on_a_cpu) -> None:
    torch.manual_seed(0)
    network, images = Normed().train(), torch.randn(2, 4, 8, 8)
    for _ in range(3):
        network(images)
    network.eval()
    fused = with_fused_norms(network)
    assert isinstance(fused.one, nn.BatchNorm2d)
    assert isinstance(fused.own, nn.BatchNorm2d)
    assert isinstance(fused.two, FusedNorm)
    with torch.inference_mode():
        plain = network(images)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert distance(plain, fused(images)) < 1e-3
    assert distance(plain, plain.flip(0)) > 1e-2  # the control


@pytest.mark.parametrize("error", [None, RuntimeError, ArithmeticError])
def test_a_gpu_where_triton_fails_has_no_kernels_for_norms_and_the_log_says_why(error, monkeypatch, caplog) -> None:
    def launch(*_args: object, relu: bool) -> None:
        if error:
            raise error("Failed to find C compiler")

    monkeypatch.setattr(norms, "triton", SimpleNamespace(TritonError=ArithmeticError))
    monkeypatch.setattr(norms, "_launch", launch)
    monkeypatch.setattr(torch.cuda, "device", lambda _device: contextlib.nullcontext())
    assert norms.usable.__wrapped__(CPU) is (error is None)
    assert ("Failed to find C compiler" in caplog.text) is (error is not None)
