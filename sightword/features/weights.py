"""Weights of a backbone: published, from a file, or random; checked before they are used."""

from __future__ import annotations

import hashlib
import logging
import pickle
import re
import struct
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from sightword.devices import OwnRandom
from sightword.errors import DownloadError, WeightsError
from sightword.features import vision
from sightword.features.backbones import Backbone, build
from sightword.features.settings import RANDOM, is_weights_file
from sightword.files import Pathish, sha256_file
from sightword.text import and_more, first_line

log = logging.getLogger(__name__)

# torchvision's DenseNet files keep names from before 2017; its own loader renames them as here.
_OLD_DENSENET = re.compile(
    r"^(.*denselayer\d+\.(?:norm|relu|conv))\.((?:[12])\.(?:weight|bias|running_mean|running_var))$"
)

# What torch's safe unpickler and safetensors raise on files that are something else.
_UNREADABLE = (
    SafetensorError,
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    struct.error,
)


class Weights:
    """Weights of a backbone, known by their sha256 before they are needed.

    Args:
        backbone: from :func:`sightword.features.backbones.find_backbone`.
        weights: a name of torchvision's weights enum, a file, or ``random``.
        sha256: what the file must hash to, in hex; empty: not checked.
        seed: of random weights.
        folder: where a file's name starts from.

    Raises:
        WeightsError: the file is another one than ``sha256`` says; or, where that
            is not given, it is missing or cannot be downloaded.
    """

    def __init__(
        self, backbone: Backbone, weights: str, *, sha256: str = "", seed: int = 0, folder: Pathish = "."
    ) -> None:
        self.backbone = backbone
        self.name = f"{RANDOM}:{seed}" if weights == RANDOM else Path(weights).name
        """The published name, the file's name without its folder, or ``random`` with the seed."""
        sha256 = sha256.lower()
        self._weights, self._wanted, self._seed = weights, sha256, seed
        self._network: nn.Module | None = None
        if weights == RANDOM:
            self._network, self.sha256 = _random(backbone, seed)
            return
        self._path = Path(folder) / weights if is_weights_file(weights) else _place(backbone, weights)
        self.sha256 = sha256
        """Of the file; for random weights, of the tensors."""
        # With its hash known, a missing file is no error yet: all features may be in the store.
        if not sha256 or self._path.is_file():
            self.sha256 = self._fetch()

    def load(self) -> nn.Module:
        """Return a new network with these weights.

        Raises:
            WeightsError: the file is missing, cannot be downloaded, or belongs to another network.
        """
        if self._network is not None:
            network, self._network = self._network, None
            return network
        if self._weights == RANDOM:
            return _random(self.backbone, self._seed)[0]
        if self._fetch() != self.sha256:
            raise WeightsError("changed while it was used", where=self._path, todo="Run it once more.")
        with OwnRandom():  # building draws numbers that are thrown away
            network = build(self.backbone, initialise=False)
        _fill(network, self.backbone, _read(self._path), self._path)
        return network

    def _fetch(self) -> str:
        """Download or find the file, and return its sha256."""
        if not is_weights_file(self._weights):
            _download(self._path, vision.models.get_model_weights(self.backbone.name)[self._weights].url)
        return _checked(self._path, self._wanted)


def _random(backbone: Backbone, seed: int) -> tuple[nn.Module, str]:
    log.warning("random weights: for demonstration (%s, seed %d); nothing was learnt by them", backbone.name, seed)
    with OwnRandom(seed):
        network = build(backbone, initialise=True)
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode() + b"\0" + tensor.numpy().tobytes())
    return network, digest.hexdigest()


def _place(backbone: Backbone, weights: str) -> Path:
    """Where the file of published weights is in torch's cache, once it was downloaded."""
    accepted = [entry.name for entry in vision.models.get_model_weights(backbone.name)]
    if weights not in accepted:
        raise WeightsError(
            f"torchvision publishes no such weights for {backbone.name}",
            where=f"weights {weights!r}",
            expected=f"{' or '.join(accepted)}, a file ending in .safetensors or .pth, or {RANDOM}",
        )
    url: str = vision.models.get_model_weights(backbone.name)[weights].url
    return Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]


def _download(path: Path, url: str) -> None:
    """Download the file of published weights, unless it is there; its name holds the first digits of its sha256."""
    prefix = re.search(r"-([0-9a-f]{8,})\.", path.name)
    if not path.exists():
        from sightword.transfer import retrieve

        log.info("downloading %s to %s", url, path)
        here = (
            "Put the file there yourself, or put it into features.inputs and name it and its sha256 in the parameters."
        )
        try:
            retrieve(url, path, begins=prefix.group(1) if prefix else "", progress=sys.stderr.isatty())
        except DownloadError as error:
            what = f"is missing and could not be downloaded from {url} ({error.what})"
            raise WeightsError(what, where=path, todo=here) from None
    if prefix and not sha256_file(path).startswith(prefix.group(1)):
        raise WeightsError("its sha256 is not the one in its name", where=path, todo="Delete it to download it again.")


def _checked(path: Path, sha256: str) -> str:
    """The file's sha256, after a look whether it is the one wanted."""
    if not path.is_file():
        wanted = f" with the sha256 {sha256}" if sha256 else ""
        raise WeightsError("the weights' file does not exist", where=path, todo=f"Put the file{wanted} there.")
    found = sha256_file(path)
    if sha256 and found != sha256:
        raise WeightsError(
            f"has the sha256 {found}",
            where=path,
            expected=sha256,
            todo="Fetch the file again, or put its sha256 into features.weights_sha256 if it is the one you want.",
        )
    return found


def _read(path: Path) -> Mapping[str, torch.Tensor]:
    """The state dict in a file; nothing in it is executed."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():  # it warns before it refuses
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        reason = first_line(error)
        raise WeightsError(
            f"holds no weights that can be read safely ({reason})",
            where=path,
            expected="safetensors, or a state dict of plain tensors",
        ) from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise WeightsError("is not a state dict", where=path, expected="names with tensors and nothing else")
    return found


def _fill(network: nn.Module, backbone: Backbone, state: Mapping[str, torch.Tensor], path: Path) -> None:
    """Load all but the classifier, which may be missing or of any size."""
    if backbone.name.startswith("densenet"):
        state = {_OLD_DENSENET.sub(r"\1\2", key): value for key, value in state.items()}
    wanted = {key: value for key, value in state.items() if not backbone.classifier_key(key)}
    own = network.state_dict()
    shapes = [
        f"{key} {tuple(value.shape)} instead of {tuple(own[key].shape)}"
        for key, value in wanted.items()
        if key in own and value.shape != own[key].shape
    ]
    if not shapes:
        missing, unexpected = network.load_state_dict(wanted, strict=False)
        missing = [key for key in missing if not backbone.classifier_key(key)]
        if not missing and not unexpected:
            return
        shapes = [f"{key} is missing" for key in missing] + [f"{key} is unknown" for key in unexpected]
    raise WeightsError(
        f"are not the weights of {backbone.name}: {and_more(shapes, between='; ')}",
        where=path,
        expected=f"torchvision's {backbone.name}; only its classifier may be missing",
    )
