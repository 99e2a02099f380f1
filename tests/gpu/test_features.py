"""Features on a GPU: the numbers of a CPU, and the same bytes each time."""

from __future__ import annotations

import copy
import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from extracting import lively

from sightword.features.extraction import Extraction
from sightword.features.extractor import Extractor
from sightword.features.identity import Transform
from sightword.features.networks import FEATURE_POINTS, NETWORKS, FeatureNetwork, build, find_backbone
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD, Crops, FeaturesSettings, Precision
from sightword.features.vision import classifiers, models

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]


CPU, GPU = torch.device("cpu"), torch.device("cuda")


COMPARED = ["resnet152", "densenet169", "mobilenet_v2"]


def transform(crops: Crops) -> Transform:
    return Transform(crops, 224, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, False, 256, "lanczos", False)


@functools.cache
def network(name: str) -> FeatureNetwork:
    return lively(name)


@functools.cache
def pictures() -> list[np.ndarray]:
    """Pictures of coarse blocks, in several sizes: noise looks all alike to a network."""
    rng = np.random.default_rng(1)
    sizes = [(256, 256), (256, 341), (257, 384), (341, 256)]
    return [np.kron(rng.integers(0, 256, (8, 12, 3)), np.ones((48, 48, 1)))[:h, :w].astype(np.uint8) for h, w in sizes]


@functools.cache
def ready(name: str, device: torch.device, precision: Precision, crops: Crops) -> Extractor:
    made = copy.deepcopy(network(name))
    return Extractor(made, transform(crops), precision=precision, device=device, threads=torch.get_num_threads())


def features(name: str, device: torch.device, precision: Precision, crops: Crops, seen=None) -> np.ndarray:
    return np.stack(list(ready(name, device, precision, crops).run(pictures() if seen is None else seen)))


@functools.cache
def wanted(name: str, precision: Precision, crops: Crops) -> np.ndarray:
    return features(name, CPU, precision, crops)


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


CASES = [*((name, "ten") for name in COMPARED), ("mobilenet_v2", "one")]


@pytest.mark.parametrize(("name", "crops"), CASES)
def test_float32_features_are_those_of_a_cpu(name, crops) -> None:
    expected, found = wanted(name, "fp32", crops), features(name, GPU, "fp32", crops)
    assert np.abs(found - expected).max() / np.abs(expected).max() < 1e-4
    assert cosines(found, expected).min() > 1 - 1e-6
    assert cosines(np.roll(found, 1, axis=0), expected).max() < 0.999  # the control: another picture's features


@pytest.mark.parametrize(("name", "crops"), CASES)
def test_bfloat16_features_are_near_those_of_a_cpu(name, crops) -> None:
    expected, found = wanted(name, "fp32", crops), features(name, GPU, "bf16", crops)
    rounded = cosines(wanted(name, "bf16", crops), expected).min()  # a random network may blow up rounding
    assert cosines(found, expected).min() >= min(0.9995, 2 * rounded - 1)
    assert not np.array_equal(found, features(name, GPU, "fp32", crops))  # the control: bfloat16 it is


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("name", "crops"), CASES)
def test_features_have_the_same_bytes_each_time_and_in_any_company(name, crops, precision) -> None:
    found = features(name, GPU, precision, crops)
    many = features(name, GPU, precision, crops, [pictures()[number % 4] for number in range(70)])
    assert all(np.array_equal(many[row], found[row % 4]) for row in range(70))
    assert np.array_equal(features(name, GPU, precision, crops, pictures()[2:3])[0], found[2])


def test_another_process_gives_the_same_bytes(tmp_path) -> None:
    torch.save((network("densenet169"), transform("ten"), pictures()), tmp_path / "made")
    code = """
import sys, numpy, torch
from sightword.features import extractor, vision  # vision loads torchvision
made, transform, pictures = torch.load(sys.argv[1] + "/made", weights_only=False)
found = extractor.Extractor(made, transform, precision="bf16", device=torch.device("cuda")).run(pictures)
numpy.save(sys.argv[1] + "/found", numpy.stack(list(found)))
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])
    assert np.array_equal(np.load(tmp_path / "found.npy"), features("densenet169", GPU, "bf16", "ten"))


def test_recorded_kernels_give_the_bytes_of_kernels_that_start_one_by_one(monkeypatch) -> None:
    found = features("densenet169", GPU, "bf16", "ten")
    monkeypatch.setattr("sightword.features.extractor.RECORDED", set())
    ready.cache_clear()
    assert np.array_equal(found, features("densenet169", GPU, "bf16", "ten"))
    ready.cache_clear()


def test_a_network_without_triton_gives_features_under_another_key(monkeypatch) -> None:
    expected, kernel = features("densenet169", GPU, "fp32", "ten"), kernel_of(GPU)
    monkeypatch.setattr("sightword.features.norms.usable", lambda device: False)
    ready.cache_clear()
    assert cosines(features("densenet169", GPU, "bf16", "ten"), expected).min() > 0.999
    ready.cache_clear()
    assert "-plain" in kernel_of(GPU)
    assert "-plain" not in kernel
    assert torch.cuda.get_device_name(0) in kernel


def smallest(family: str) -> str:
    names = [name for name in classifiers() if name.startswith(family)]
    sizes = {name: models.get_model_weights(name).DEFAULT.meta["num_params"] for name in names}
    return min(sizes, key=sizes.get) if sizes else min(name for name in NETWORKS if name.startswith(family))


@pytest.mark.parametrize("family", sorted(FEATURE_POINTS))
def test_each_family_computes_with_repeatable_kernels(family) -> None:
    """torch refuses an operation that has no repeatable kernel."""
    backbone = find_backbone(smallest(family))
    side = 299 if family == "inception" else 224
    values = {**vars(transform("one")), "crop": side, "resize": side}
    made = backbone.cut(build(backbone, initialise=True))
    found = Extractor(made, Transform(**values), precision="bf16", device=GPU)
    seen = [np.resize(picture, (side, side, 3)) for picture in pictures()]
    assert np.isfinite(np.stack(list(found.run(seen)))).all()


def kernel_of(device: torch.device) -> str:
    settings = FeaturesSettings(backbone="resnet18", weights="random", precision="bf16")
    resized = {"resize": 256, "interpolation": "lanczos", "exif": False}
    return Extraction(settings, resized, device=device, store=None).identity.kernel
