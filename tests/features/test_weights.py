"""Weights are those that were asked for, or there is an error that says what to do."""

from __future__ import annotations

import logging
import pickle
import urllib.error
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pipeline.errors import WeightsError
from pipeline.features.backbones import build, find_backbone
from pipeline.features.weights import load
from pipeline.files import sha256_file

BACKBONE = find_backbone("squeezenet1_1")


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return build(BACKBONE, initialise=True).state_dict()


@pytest.fixture(params=[".safetensors", ".pth"])
def file(request, tmp_path, state) -> Path:
    path = tmp_path / f"net{request.param}"
    save(path, {key: value for key, value in state.items() if not key.startswith("classifier")})
    return path


def save(path: Path, state: dict[str, torch.Tensor]) -> None:
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)


def test_a_file_without_the_classifier_is_enough(file, state) -> None:
    found = load(BACKBONE, file.name, sha256=sha256_file(file), folder=file.parent)
    assert (found.weights, found.sha256) == (file.name, sha256_file(file))
    own = found.network.state_dict()
    assert all(torch.equal(own[key], state[key]) for key in state if not key.startswith("classifier"))


def test_a_classifier_of_another_size_does_no_harm(tmp_path, state) -> None:
    save(tmp_path / "net.pth", state | {"classifier.1.weight": torch.zeros(7, 512, 1, 1)})
    load(BACKBONE, "net.pth", folder=tmp_path)


def test_another_files_sha256(file) -> None:
    with pytest.raises(WeightsError, match=f"{file.name}: has the sha256 {sha256_file(file)}; expected 0000"):
        load(BACKBONE, file.name, sha256="0" * 64, folder=file.parent)


def test_a_missing_file(tmp_path) -> None:
    with pytest.raises(WeightsError, match=r"none\.pth: the weights' file does not exist.*sha256 1111"):
        load(BACKBONE, "none.pth", sha256="1" * 64, folder=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("features.0.bias"), "features.0.bias is missing"),
        (lambda s: s.update(extra=torch.zeros(1)), "extra is unknown"),
        (lambda s: s.update({"features.0.bias": torch.zeros(3)}), r"features.0.bias \(3,\) instead of \(64,\)"),
    ],
)
def test_weights_of_another_network(tmp_path, state, change, message) -> None:
    changed = dict(state)
    change(changed)
    save(tmp_path / "net.pth", changed)
    with pytest.raises(WeightsError, match=message):
        load(BACKBONE, "net.pth", folder=tmp_path)


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("trapped"),)


@pytest.mark.parametrize("name", ["net.pth", "net.safetensors"])
def test_nothing_in_a_file_is_executed(tmp_path, name, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for content in (pickle.dumps(Trap()), b"", b"text", pickle.dumps({"a": 1})):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(WeightsError, match="safely"):
            load(BACKBONE, name, folder=tmp_path)
    assert not (tmp_path / "trapped").exists()


def test_a_file_that_is_no_state_dict(tmp_path) -> None:
    torch.save([torch.zeros(1)], tmp_path / "net.pth")
    with pytest.raises(WeightsError, match="no state dict"):
        load(BACKBONE, "net.pth", folder=tmp_path)


def test_random_weights_are_loud_and_repeat(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        one = load(BACKBONE, "random", seed=5)
    assert "random weights: for demonstration" in caplog.text
    torch.rand(7)  # the state of torch's own generator has no say
    assert load(BACKBONE, "random", seed=5).sha256 == one.sha256
    assert load(BACKBONE, "random", seed=6).sha256 != one.sha256
    assert one.weights == "random:5"


def test_random_weights_leave_torchs_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    load(BACKBONE, "random", seed=5)
    assert torch.equal(torch.rand(3), expected)


def test_no_network_says_which_file_to_put_where(tmp_path, monkeypatch) -> None:
    def no_network(*_args: object, **_options: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", no_network)
    with pytest.raises(WeightsError, match="no route to host") as caught:
        load(find_backbone("resnet152"), "IMAGENET1K_V1")
    assert str(tmp_path / "hub/checkpoints/resnet152-394f9c45.pth") in str(caught.value)
    assert "https://download.pytorch.org/models/resnet152-394f9c45.pth" in str(caught.value)


def test_a_damaged_download_is_not_used(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub/checkpoints").mkdir(parents=True)
    (tmp_path / "hub/checkpoints/resnet152-394f9c45.pth").write_bytes(b"half")
    with pytest.raises(WeightsError, match="not the one in its name"):
        load(find_backbone("resnet152"), "IMAGENET1K_V1")


def test_unknown_published_weights() -> None:
    with pytest.raises(WeightsError, match="IMAGENET1K_V1 or IMAGENET1K_V2, a file"):
        load(find_backbone("resnet152"), "IMAGENET1K_V3")
