"""The networks behind features: named by attributes, compared with an encoder's, and applied to new pictures."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, FeaturesError, SearchError
from sightword.features.identity import Transform
from sightword.features.network_files import network_sha256
from sightword.features.settings import RANDOM, is_weights_file
from sightword.features.tables.origin import DEMONSTRATION, other_kind, parts_of, random_weights, side_by_side
from sightword.images.decode import RejectError, decode, read_file
from sightword.images.resized import resize
from sightword.io.files import loads
from sightword.messages import short

if TYPE_CHECKING:
    from sightword.features.extractor import Extractor
    from sightword.features.networks import Backbone
    from sightword.features.weights import Weights

MAX_PIXELS = 50_000_000
"""Largest width times height of an uploaded picture."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class NamedNetwork:
    """The network, weights and transform that attributes name."""

    attributes: Mapping[str, Any]
    """The root attributes of ``features.h5``, or the notes of an encoder on its features."""
    file: Path | None = None
    """The file with the weights; None for random weights, and for those that a package or a publisher has."""

    @property
    def obstacle(self) -> str:
        """The reason why features like these cannot be computed; empty where they can."""
        if not self.attributes.get("backbone"):
            origin = str(self.attributes.get("origin") or "of unknown origin").partition(" (sha256")[0]
            return f"this collection uses precomputed features ({origin}), so new pictures cannot be added"
        try:
            _ = self.transform
        except (ValueError, TypeError, FeaturesError):
            return "the features do not say how their pictures were cropped and normalised"
        name = str(self.attributes.get("weights", ""))
        if is_weights_file(name) and self.file is None:
            return f"the network's weights are a file of their own ({name}): give it as weights"
        return ""

    @property
    def transform(self) -> Transform:
        """The transform; a ValueError or TypeError if the attributes have none, or an incomplete one."""
        return Transform(**loads(str(self.attributes.get("transform", ""))))

    @property
    def backbone(self) -> Backbone:
        """The backbone; FeaturesError if it is unknown, SearchError if its files are not those of the features.

        A file of the working folder is imported only if its sha256 is stated: the attributes may come from a stranger.
        """
        from sightword.features.networks import find_backbone

        name, wanted = str(self.attributes["backbone"]), str(self.attributes.get("network_sha256") or "")
        if (found := network_sha256(name)) != wanted:  # both are empty for a network of an installed package
            made = "were made with others" if wanted else "state none"
            what = f"have the sha256 {found}, and the features {made}" if found else "are not here"
            todo = "Run it in the project's folder; after a change, run the stage features and all after it again."
            expected = f"the sha256 {short(wanted)}" if wanted else "no module of this name in the working folder"
            raise SearchError(f"the network's files {what}", where=short(name), expected=expected, todo=todo)
        return find_backbone(name, str(self.attributes["feature_point"]))

    @property
    def weights_name(self) -> str:
        """The name of published weights, ``random``, or the path of the file."""
        name = str(self.attributes["weights"])
        if random_weights(self.attributes):
            return RANDOM
        return str(self.file.absolute()) if self.file else name

    @property
    def seed(self) -> int:
        """The seed of random weights; 0 for others."""
        return int(str(self.attributes["weights"]).partition(":")[2] or 0) if random_weights(self.attributes) else 0

    def weights(self) -> Weights:
        """Return the weights; SearchError, WeightsError or FeaturesError if they or the network are not here."""
        from sightword.features.weights import Weights

        wanted = "" if self.weights_name == RANDOM else str(self.attributes["weights_sha256"])
        found = Weights(self.backbone, self.weights_name, sha256=wanted, seed=self.seed)
        self.check(found.sha256)
        return found

    def check(self, sha256: str) -> None:
        """Check that weights have the sha256 of those that made the features; SearchError otherwise."""
        wanted = str(self.attributes["weights_sha256"])
        if wanted and sha256 != wanted:  # of features made elsewhere it may not be stated
            what = "random weights are not the same here as where the features were computed"
            todo = "Run the stage features again with this version of torch."
            raise SearchError(what, expected=f"the sha256 {wanted}", todo=todo)


class UploadedPictures:
    """Computes features of uploaded pictures; the network is loaded for the first picture, and kept.

    Args:
        attributes: the root attributes of ``features.h5``, which describe how the features were made.
        known: the row of each picture of the collection by its sha256: a copy of one needs no network.
        weights: the file with the network's weights, or one for each of several networks; None for published or random
            weights.
        device: where to compute.
    """

    def __init__(
        self,
        attributes: Mapping[str, Any],
        known: Mapping[str, int],
        *,
        weights: Path | Sequence[Path | None] | None = None,
        device: torch.device | None = None,
    ) -> None:
        parts = parts_of(attributes)
        files = [weights] * len(parts) if weights is None or isinstance(weights, Path) else weights
        self._networks, self._known = [NamedNetwork(*pair) for pair in zip(parts, files, strict=True)], known
        self._device = device or torch.device("cpu")
        self._extractors: list[Extractor] = []
        self._turn = threading.Lock()

    @property
    def obstacle(self) -> str:
        """The reason why features like the collection's cannot be computed; empty where they can."""
        return next((one.obstacle for one in self._networks if one.obstacle), "")

    @property
    def copies_only(self) -> bool:
        """Whether only copies of pictures of the collection can be used, since there is an :attr:`obstacle`."""
        return bool(self.obstacle and self._known)

    def read(self, path: Path) -> bytes:
        """Read a picture file; SearchError if it does not exist, or is too large."""
        try:
            return read_file(path, max_pixels=MAX_PIXELS)
        except RejectError as error:
            raise SearchError(f"the picture cannot be used: {error.detail}", where=path) from None

    def row(self, data: bytes) -> int | None:
        """Return the row of the same file in the collection; None for a new picture."""
        return self._known.get(hashlib.sha256(data).hexdigest())

    def features(self, data: bytes, where: Path | None = None) -> Floats:
        """Return the features, float32 (D,), of a picture's file; SearchError if they cannot be computed, and errors of
        :meth:`NamedNetwork.weights`.
        """
        if self.obstacle:
            raise SearchError(self.obstacle, todo="Choose a picture of the collection.")
        with self._turn:  # one picture at a time is decoded and held
            self._extractors = self._extractors or [self._load(network) for network in self._networks]
            parts = [self._of(extractor, data, where) for extractor in self._extractors]
            return parts[0] if len(parts) == 1 else side_by_side(parts)

    def _of(self, extractor: Extractor, data: bytes, where: Path | None) -> Floats:
        """Return the features of a picture's file by one network."""
        made = extractor.transform
        kind: Any = made.interpolation  # a name of Pillow's
        try:
            picture = decode(data, exif=made.exif, max_pixels=MAX_PIXELS)
            small = resize(picture, size=made.resize, interpolation=kind, max_pixels=MAX_PIXELS)
        except RejectError as error:
            raise SearchError(f"the picture cannot be used: {error.detail}", where=where) from None
        found: Floats = next(iter(extractor.run([np.array(small)])))
        return found

    def _load(self, network: NamedNetwork) -> Extractor:
        from sightword.features.extractor import Extractor

        weights = network.weights()
        return Extractor(
            weights.backbone.cut(weights.load()),
            network.transform,
            precision="bf16" if network.attributes["precision"] == "bf16" else "fp32",
            device=self._device,
            threads=1,
        )


def check_width(encoder: SentenceEncoder, width: int, attributes: Mapping[str, Any], where: Path | None) -> None:
    """Raise EncoderError if an encoder was trained on features of another width than these."""
    trained = encoder.notes.get("features")
    if width != encoder.features_width:
        of = f" ({_network(trained)})" if isinstance(trained, dict) else ""
        what = f"has {width} numbers a picture ({_network(attributes)})"
        expected = f"{encoder.features_width}, as the encoder was trained with{of}"
        raise EncoderError(what, where=where, expected=expected, todo="Give the features of the same run.")


def _network(attributes: Mapping[str, Any]) -> str:
    """Return the name of the network that made features, or of the file they came from, without its sha256."""
    if not attributes.get("backbone"):
        return str(attributes.get("origin") or "of unknown origin").partition(" (sha256")[0]
    weights = DEMONSTRATION if random_weights(attributes) else f"weights {attributes.get('weights', '')}"
    return f"{attributes['backbone']}, {weights}"


def difference(trained: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Describe the features of the training where they may be of another kind than these; empty otherwise."""
    # The turning by EXIF changes few photographs.
    sides = [
        {**one, "transform": re.sub(r'"exif": ?\w+', "", str(one.get("transform") or ""))} for one in (here, trained)
    ]
    other = other_kind(sides[0], 0, sides[1], 0)
    if other is None:
        return ""
    return (
        f"another kind ({_network(trained)}) than these ({_network(here)}; other {other[0]}): scores may mean nothing"
    )
