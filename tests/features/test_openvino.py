"""OpenVINO computes torch's features, under a key of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from extracting import extract
from PIL import Image

from sightword.compute import devices
from sightword.errors import SetupError
from sightword.features import openvino
from sightword.features.extraction import Extraction
from sightword.features.settings import FeaturesSettings
from sightword.images.settings import ResizeSettings

SMALL = {"backbone": "shufflenet_v2_x0_5", "weights": "random", "weights_seed": 1, "crop": 64, "resize": 72}


@pytest.fixture
def paths(tmp_path, monkeypatch) -> list[Path]:
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")
    rng, found = np.random.default_rng(0), [tmp_path / f"{number}.png" for number in range(4)]
    for path in found:
        Image.fromarray(rng.integers(0, 256, (80, 90, 3), np.uint8)).save(path)
    return found


def engine(monkeypatch, name: str) -> None:
    monkeypatch.setenv("SIGHTWORD_ENGINE", name)


def test_features_in_float32_are_torchs_for_any_number_of_threads(paths, monkeypatch) -> None:
    expected = extract(paths, **SMALL)
    engine(monkeypatch, "openvino")
    found = []
    for threads in (1, 3):
        with devices.threads(threads):
            found.append(extract(paths, **SMALL))
    assert np.array_equal(*found)
    apart = np.abs(expected - expected[0]).max(1)[1:].min()  # the control: other pictures have other features
    assert np.abs(found[0] - expected).max() < 1e-4 * np.abs(expected).max()
    assert np.abs(found[0] - expected).max() < 1e-2 * apart


def test_features_in_bfloat16_are_near_those_in_float32_or_refused_by_a_cpu_without_it(paths, monkeypatch) -> None:
    exact = extract(paths, **SMALL)
    engine(monkeypatch, "openvino")
    if "BF16" not in openvino._imported().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        with pytest.raises(SetupError, match="OpenVINO has no bfloat16 on this CPU"):
            extract(paths, precision="bf16", **SMALL)
        return
    half = extract(paths, precision="bf16", **SMALL)
    cosines = (exact * half).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(half, axis=1)
    assert not np.array_equal(exact, half)
    assert cosines.min() > 0.999


def test_the_store_keeps_features_of_the_engines_apart(monkeypatch) -> None:
    settings, cpu = FeaturesSettings(backbone="shufflenet_v2_x0_5", weights="random"), torch.device("cpu")
    kinds = []
    for name in ("openvino", "torch"):
        engine(monkeypatch, name)
        kinds.append(Extraction(settings, ResizeSettings().transform, device=cpu, store=None).identity)
    assert kinds[0].kernel == "openvino"
    assert kinds[0].key("") != kinds[1].key("")


def test_a_network_that_cannot_be_converted_is_refused() -> None:
    class Odd(torch.nn.Module):
        def forward(self, crops: torch.Tensor) -> torch.Tensor:
            first = crops[:, :, 0, :3]
            return torch.linalg.eigvals(first.unsqueeze(0)).real

    with pytest.raises(SetupError, match="OpenVINO cannot compile the network"):
        openvino.OpenVinoNetwork(Odd(), (1, 8, 8, 3), "fp32", 1)
