"""Work and peak: counted and measured, not guessed."""

from __future__ import annotations

import pytest
import torch

from sightword.features import fusion, utilisation, vision
from sightword.features.backbones import find_backbone
from sightword.features.identity import Transform
from sightword.features.networks.efficientnet_lite import NETWORKS
from sightword.features.networks.network import FeatureNetwork
from sightword.features.networks.torchvision import FEATURE_POINTS
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD


def transform(**changes) -> Transform:
    values = {"resize": 256, "interpolation": "lanczos", "exif": False, "crops": "one", "crop": 224, "relu": False,
              "l2": False, "mean": tuple(IMAGENET_MEAN), "std": tuple(IMAGENET_STD)}  # fmt: skip
    return Transform(**values | changes)


@pytest.mark.parametrize(
    ("name", "dimension", "gflop"), [("resnet152", 2048, 23.1), ("densenet169", 1664, 6.7), ("vgg19", 4096, 39.3)]
)
def test_the_work_of_published_networks(name, dimension, gflop) -> None:
    """Against torchvision's own table of multiply-adds, which counts the classifier too."""
    network = utilisation.skeleton(find_backbone(name))
    assert network.dimension == dimension
    one = utilisation.flops_a_picture(network, transform())
    assert one / 1e9 == pytest.approx(gflop, rel=0.01)
    assert utilisation.flops_a_picture(network, transform(crops="ten")) == 10 * one


def test_counting_hooks_itself_to_no_module_of_another_thread() -> None:
    hooked: list[object] = []

    class Looking(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.conv2d(images, torch.zeros((1, 3, 5, 5), device="meta"))

    with pytest.MonkeyPatch.context() as patch:
        for name in ("register_module_forward_pre_hook", "register_module_forward_hook"):
            register = getattr(torch.nn.modules.module, name)
            patch.setattr(
                f"torch.utils.module_tracker.{name}",
                lambda hook, register=register: (hooked.append(hook), register(hook))[1],
            )
        network = FeatureNetwork(Looking(), 1)
        assert utilisation.flops_a_picture(network, transform(crop=9)) == 2 * 75 * 25
    assert hooked == []


@pytest.mark.parametrize("name", sorted(FEATURE_POINTS))
def test_each_family_has_a_skeleton_and_a_graph(name) -> None:
    """RegNet's cannot be built on torch's meta device like the others."""
    first = min(
        (known for known in [*vision.classifiers(), *NETWORKS] if known.startswith(name)),
        key=lambda known: "128" in known,
    )
    first = {"regnet": "regnet_y_400mf", "wide_resnet": "wide_resnet50_2"}.get(name, first)
    network = utilisation.skeleton(find_backbone(first))
    assert all(weight.is_meta for weight in network.parameters())
    assert utilisation.flops_a_picture(network, transform(crop=224)) > 1e7
    assert fusion._trace(network) is not None


def test_the_peak_is_a_rate(monkeypatch) -> None:
    monkeypatch.setitem(utilisation.SIDE, "cpu", 300)
    assert 1e8 < utilisation.peak_flops("fp32", torch.device("cpu")) < 1e14
