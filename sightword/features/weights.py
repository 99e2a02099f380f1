"""Weights of a backbone: published, from a package or a file, or random; checked before use."""

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

from sightword.compute.devices import OwnRandom
from sightword.errors import DownloadError, WeightsError
from sightword.features.network_files import SHA256, packaged_weights
from sightword.features.networks import Backbone, build
from sightword.features.settings import PACKAGE, RANDOM, is_weights_file
from sightword.io.files import Pathish, sha256_file
from sightword.io.opening import reading, require_regular
from sightword.messages import and_more, first_line, short

log = logging.getLogger(__name__)

# The errors that torch's safe unpickler and safetensors raise on files of another kind.
_UNREADABLE = (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, TypeError,
               AttributeError, struct.error)  # fmt: skip


class Weights:
    """Weights of a backbone, with their sha256 before they are needed.

    ``weights`` is a name of torchvision's weights enum, ``package``, ``hub``, a file in ``folder``, or ``random``. A
    file of the expected ``sha256``, in hex, may be missing until :meth:`load`.

    Raises:
        WeightsError: the file has another sha256, or is missing or cannot be downloaded.
    """

    def __init__(
        self, backbone: Backbone, weights: str, *, sha256: str = "", seed: int = 0, folder: Pathish = "."
    ) -> None:
        self.backbone = backbone
        self.name = f"{RANDOM}:{seed}" if weights == RANDOM else Path(weights).name
        """The published name, the file's name without its folder, or ``random`` with the seed."""
        self.sha256 = self._wanted = sha256.lower()
        """The sha256 of the file; without a file, of the tensors."""
        self._seed, self._is_random = seed, weights == RANDOM
        self._is_whole = weights == backbone.whole
        check_name(backbone, weights)
        self._network: nn.Module | None = None
        self._path, self._url = Path(folder) / weights, ""
        if self._is_random:
            self._network, self.sha256 = _random(backbone, seed)
            return
        if self._is_whole:
            if not sha256:
                self._network = self._whole()
            return
        if weights == PACKAGE:
            self._path = packaged_weights(backbone.name)
            self.sha256 = self._wanted = self._wanted or SHA256[backbone.name]
        elif not is_weights_file(weights):
            from sightword.features import vision  # loads torchvision

            self._url = str(vision.models.get_model_weights(backbone.name)[weights].url)
            self._path = Path(torch.hub.get_dir()).expanduser() / "checkpoints" / self._url.rpartition("/")[2]
        if not sha256 or self._path.is_file():
            self.sha256 = self._fetch()

    @property
    def identity(self) -> str:
        """The sha256 of all that a feature takes from weights: with a file, the network's configuration too."""
        if self._is_random or self._is_whole or not self.backbone.configuration:
            return self.sha256
        return hashlib.sha256((self.backbone.configuration + self.sha256).encode()).hexdigest()

    def load(self) -> nn.Module:
        """Return a new network with these weights; WeightsError if they are missing, or another network's."""
        if self._is_random or self._is_whole:
            network, self._network = self._network, None
            return network or (self._whole() if self._is_whole else _random(self.backbone, self._seed)[0])
        if self._fetch() != self.sha256:
            raise WeightsError("changed while it was used", where=self._path, todo="Run it once more.")
        with OwnRandom():  # the builder draws numbers, which are not used
            network = build(self.backbone, initialise=False)
        _fill(network, self.backbone, _read(self._path), self._path)
        return network

    def _whole(self) -> nn.Module:
        """Return the network as its library gives it, and compare the sha256 of the tensors."""
        where = f"weights {self.name!r} of {self.backbone.name}"
        try:
            network = self.backbone.published().eval()
        except (OSError, RuntimeError, ValueError, LookupError, SafetensorError) as error:  # the libraries' own
            what = f"are damaged, or neither in the cache nor downloaded ({first_line(error)})"
            todo = "Fetch them where there is a network, or name a .safetensors file and its sha256."
            raise WeightsError(what, where=where, todo=todo) from None
        self.sha256 = _digest(self.backbone, network)
        if self._wanted not in ("", self.sha256):
            todo = "Put this sha256 into features.weights_sha256 if these are the weights you want."
            raise WeightsError(f"have the sha256 {self.sha256}", where=where, expected=self._wanted, todo=todo)
        return network

    def _fetch(self) -> str:
        """Download or find the file, compare its sha256, and return the sha256."""
        prefix = re.search(r"-([0-9a-f]{8,})\.", self._path.name) if self._url else None
        begins = prefix.group(1) if prefix else ""
        if self._url and not self._path.exists():
            self._download(begins)
        if not self._path.is_file():
            wanted = f" with the sha256 {self._wanted}" if self._wanted else ""
            todo = f"Put the file{wanted} there."
            raise WeightsError("the weights' file does not exist", where=self._path, todo=todo)
        with reading(self._path, WeightsError):
            require_regular(self._path)
        found = sha256_file(self._path)
        if not found.startswith(begins):
            todo = "Delete it to download it again."
            raise WeightsError("its sha256 is not the one in its name", where=self._path, todo=todo)
        if self._wanted and found != self._wanted:
            todo = "Fetch the file again, or put its sha256 into features.weights_sha256 if it is the one you want."
            raise WeightsError(f"has the sha256 {found}", where=self._path, expected=self._wanted, todo=todo)
        return found

    def _download(self, begins: str) -> None:
        """Download published weights, whose sha256 begins with the digits in the file's name."""
        from sightword.io.transfer import retrieve

        log.warning("downloading %s to %s, once; the sha256 must begin with %s", self._url, self._path, begins)
        try:
            retrieve(self._url, self._path, begins=begins, progress=sys.stderr.isatty())
        except DownloadError as error:
            what = f"is missing and could not be downloaded from {self._url} ({error.what})"
            todo = "Put the file there, or put it into features.inputs and name it and its sha256 in the parameters."
            raise WeightsError(what, where=self._path, todo=todo) from None


def check_name(backbone: Backbone, weights: str) -> None:
    """Raise WeightsError for a name of weights that a network does not have."""
    if is_weights_file(weights) or weights in backbone.accepted:
        return
    named, random = [name for name in backbone.accepted if name != RANDOM], RANDOM in backbone.accepted
    expected = f"{' or '.join(named)}, a file ending in .safetensors or .pth{f', or {RANDOM}' * random}"
    what = f"there are no such weights for {backbone.name}"
    raise WeightsError(what, where=f"weights {weights!r}", expected=expected)


def _random(backbone: Backbone, seed: int) -> tuple[nn.Module, str]:
    log.warning("random weights: for demonstration (%s, seed %d); the network is not trained", backbone.name, seed)
    with OwnRandom(seed):
        network = build(backbone, initialise=True)
    return network, _digest(backbone, network)


def _digest(backbone: Backbone, network: nn.Module) -> str:
    """Return the sha256 of a network's tensors, and of its configuration where it has one."""
    digest = hashlib.sha256(backbone.configuration.encode())
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode() + b"\0" + tensor.numpy().tobytes())
    return digest.hexdigest()


def _read(path: Path) -> Mapping[str, torch.Tensor]:
    """Return the state dict of a file; nothing in the file is executed."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():  # torch warns before it refuses
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        code = isinstance(error, pickle.UnpicklingError)  # torch's own words would advise to run it
        why = "damaged, or with code that is not run" if code else short(first_line(error))
        what = f"holds no weights that can be read safely ({why})"
        raise WeightsError(what, where=path, expected="safetensors, or a state dict of plain tensors") from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise WeightsError("is not a state dict", where=path, expected="names with tensors and nothing else")
    return found


def _fill(network: nn.Module, backbone: Backbone, state: Mapping[str, torch.Tensor], path: Path) -> None:
    """Load all weights but the classifier's, which may be missing or of any size."""
    wanted = {key: value for key, value in backbone.renamed(state).items() if not backbone.classifier_key(key)}
    own = network.state_dict()
    wrong = [
        f"{key} {tuple(value.shape)} instead of {tuple(own[key].shape)}"
        for key, value in wanted.items()
        if key in own and value.shape != own[key].shape
    ]
    if not wrong:
        missing, unknown = network.load_state_dict(wanted, strict=False)
        wrong = [f"{key} is missing" for key in missing if not backbone.classifier_key(key)]
        wrong += [f"{key} is unknown" for key in unknown]
    if wrong:
        what = f"are not the weights of {backbone.name}: {and_more(wrong, between='; ')}"
        expected = f"those of {backbone.name}; only its classifier may be missing"
        raise WeightsError(what, where=path, expected=expected)
