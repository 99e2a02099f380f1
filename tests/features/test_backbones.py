"""Every torchvision classifier by name, cut where its features are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sightword.errors import FeaturesError
from sightword.features import vision
from sightword.features.backbones import build, find_backbone
from sightword.features.networks.network import FeatureNetwork
from sightword.features.networks.torchvision import FEATURE_POINTS

KNOWN = {
    "alexnet": 4096,
    "densenet169": 1664,
    "efficientnet_b0": 1280,
    "efficientnet_lite2": 1280,
    "googlenet": 1024,
    "inception_v3": 2048,
    "mobilenet_v2": 1280,
    "mobilenet_v3_small": 1024,
    "resnet152": 2048,
    "shufflenet_v2_x0_5": 1024,
    "squeezenet1_1": 512,
    "vgg19": 4096,
    "vit_b_16": 768,
}


def on_paper(name: str, point: str = "") -> FeatureNetwork:
    """The cut network without memory for its weights."""
    backbone = find_backbone(name, point)
    if name.startswith("regnet"):  # its builder computes with tensors
        return backbone.cut(build(backbone, initialise=False)).to("meta")
    with torch.device("meta"):
        return backbone.cut(build(backbone, initialise=False))


def features(network: nn.Module, side: int = 224) -> torch.Size:
    with torch.device("meta"), torch.inference_mode():
        return network(torch.empty(2, 3, side, side)).shape


@pytest.mark.parametrize("name", KNOWN)
def test_known_dimensions(name: str) -> None:
    network = on_paper(name)
    assert network.dimension == KNOWN[name]
    assert features(network, 299 if name == "inception_v3" else 224) == (2, KNOWN[name])


def test_every_classifier_of_torchvision_has_a_feature_point() -> None:
    for name in vision.classifiers():
        backbone = find_backbone(name)
        assert backbone.feature_point


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["convnext_tiny", "maxvit_t", "mnasnet0_5", "regnet_y_400mf", "swin_t", "swin_v2_t", "resnext50_32x4d"]
)
def test_the_other_families(name: str) -> None:
    network = on_paper(name)
    assert features(network) == (2, network.dimension)


@pytest.mark.parametrize(
    ("name", "point", "dimension"),
    [
        ("vgg19", "fc6", 4096),
        ("alexnet", "pool5", 9216),
        ("alexnet", "fc6", 4096),
        ("mobilenet_v3_small", "avgpool", 576),
    ],
)
def test_named_points(name: str, point: str, dimension: int) -> None:
    network = on_paper(name, point)
    assert features(network) == (2, dimension) == (2, network.dimension)


@pytest.mark.parametrize("name", ["alexnet", "densenet121", "resnet18", "squeezenet1_1", "mobilenet_v3_small"])
def test_the_feature_is_what_enters_the_last_layer(name: str) -> None:
    torch.manual_seed(0)
    backbone = find_backbone(name)
    network = build(backbone, initialise=True)
    seen: list[torch.Tensor] = []
    last = [m for m in network.modules() if isinstance(m, nn.Linear)] or [network.get_submodule("classifier")]
    last[-1].register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    crops = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        network(crops)
        found = backbone.cut(network)(crops)
    entered = seen[0].mean(dim=(2, 3)) if seen[0].ndim == 4 else seen[0]
    torch.testing.assert_close(found, entered, rtol=0, atol=1e-6)


def test_unknown_names_get_near_ones() -> None:
    with pytest.raises(FeaturesError, match=r"resnet15.*expected one such as .*resnet152"):
        find_backbone("resnet15")
    with pytest.raises(FeaturesError, match="fc7 or fc6 or pool5"):
        find_backbone("vgg19", "fc8")


def test_the_documentation_lists_all_feature_points(repository) -> None:
    page = (repository / "docs/features.md").read_text()
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.count("|") == 3 and "`" in line]
    points = {name.strip().lower().replace(" ", "").replace("-", ""): cell.strip() for names, cell in rows
              for name in names.split(",")}  # fmt: skip
    for family, known in FEATURE_POINTS.items():
        name = {
            "mobilenet_v2": "mobilenetv2",
            "mobilenet_v3": "mobilenetv3",
            "efficientnet_lite": "efficientnetlite",
            "wide_resnet": "wideresnet",
        }.get(family, family)
        assert points[name] == ", ".join(f"`{point}`" for point in known), family
