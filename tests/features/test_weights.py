"""Weights are those that were asked for, or there is an error that says what to do."""

from __future__ import annotations

import http.server
import logging
import pickle
import threading
from pathlib import Path

import pytest
import requests
import torch
from safetensors.torch import save_file

from sightword.errors import WeightsError
from sightword.features import vision
from sightword.features.networks import build, find_backbone
from sightword.features.weights import Weights
from sightword.io.files import sha256_file

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


def load(*arguments, **options) -> torch.nn.Module:
    return Weights(*arguments, **options).load()


def test_a_file_without_the_classifier_is_enough(file, state) -> None:
    found = Weights(BACKBONE, file.name, sha256=sha256_file(file), folder=file.parent)
    assert (found.name, found.sha256) == (file.name, sha256_file(file))
    own = found.load().state_dict()
    assert all(torch.equal(own[key], state[key]) for key in state if not key.startswith("classifier"))


def test_another_files_sha256(file) -> None:
    with pytest.raises(WeightsError, match=f"{file.name}: has the sha256 {sha256_file(file)}; expected 0000"):
        load(BACKBONE, file.name, sha256="0" * 64, folder=file.parent)


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
    for content in (pickle.dumps(Trap()), b"text", pickle.dumps({"a": 1})):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(WeightsError, match="safely") as found:
            load(BACKBONE, name, folder=tmp_path)
        assert "arbitrary code" not in str(found.value)  # torch's advice is to run it
    assert not (tmp_path / "trapped").exists()


def test_random_weights_are_loud_and_repeat(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        one = Weights(BACKBONE, "random", seed=5)
    assert "random weights: for demonstration" in caplog.text
    torch.rand(7)  # the state of torch's own generator has no say
    assert Weights(BACKBONE, "random", seed=5).sha256 == one.sha256
    assert Weights(BACKBONE, "random", seed=6).sha256 != one.sha256
    assert one.name == "random:5"
    first, second = one.load().state_dict(), one.load().state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert first["features.0.weight"].data_ptr() != second["features.0.weight"].data_ptr()


def test_no_network_names_the_file_and_its_place(tmp_path, monkeypatch) -> None:
    def no_network(*_args: object, **_options: object) -> None:
        raise requests.exceptions.InvalidSchema("no route to host")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(requests, "get", no_network)
    with pytest.raises(WeightsError, match="no route to host") as caught:
        load(find_backbone("resnet152"), "IMAGENET1K_V1")
    assert str(tmp_path / "hub/checkpoints/resnet152-394f9c45.pth") in str(caught.value)
    assert "https://download.pytorch.org/models/resnet152-394f9c45.pth" in str(caught.value)


def test_a_file_that_is_replaced_between_is_refused(tmp_path, state) -> None:
    save(tmp_path / "net.pth", state)
    found = Weights(BACKBONE, "net.pth", folder=tmp_path)
    save(tmp_path / "net.pth", {key: value + 1 for key, value in state.items()})
    with pytest.raises(WeightsError, match="changed while it was used"):
        found.load()


class Publisher:
    """torchvision's record of published weights, whose file a server on this machine gives."""

    def __init__(self, url: str) -> None:
        self.name, self.url = "IMAGENET1K_V1", url

    def __iter__(self):
        return iter([self])

    def __getitem__(self, name: str) -> Publisher:
        return self


@pytest.fixture
def published(tmp_path, monkeypatch, state):
    """Publishes bytes under a name; tells how often they were asked for."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    (tmp_path / "served").mkdir()
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            data = (tmp_path / "served" / self.path.lstrip("/")).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def publish(name: str, data: bytes) -> list[str]:
        (tmp_path / "served" / name).write_bytes(data)
        publisher = Publisher(f"http://127.0.0.1:{server.server_port}/{name}")
        monkeypatch.setattr(vision.models, "get_model_weights", lambda _: publisher)
        return asked

    yield publish
    server.shutdown()
    server.server_close()


def test_published_weights_are_downloaded_once_and_checked(tmp_path, published, state) -> None:
    torch.save(state, tmp_path / "net.pth")
    data, sha256 = (tmp_path / "net.pth").read_bytes(), sha256_file(tmp_path / "net.pth")
    asked = published(f"squeezenet1_1-{sha256[:8]}.pth", data)
    for _ in range(2):
        found = Weights(BACKBONE, "IMAGENET1K_V1")
        assert (found.name, found.sha256) == ("IMAGENET1K_V1", sha256)
        own = found.load().state_dict()
        assert all(torch.equal(own[key], state[key]) for key in own if "classifier" not in key)
    assert asked == [f"/squeezenet1_1-{sha256[:8]}.pth"]


def test_a_download_of_something_else_is_refused_and_not_kept(tmp_path, published) -> None:
    published("squeezenet1_1-00000000.pth", b"another file")
    with pytest.raises(WeightsError, match=r"does not begin with 00000000"):
        Weights(BACKBONE, "IMAGENET1K_V1")
    assert not list((tmp_path / "torch/hub/checkpoints").iterdir())
