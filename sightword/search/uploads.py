"""Features of an uploaded picture, computed in the same way as the features of the collection."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from sightword.errors import FeaturesError, SearchError
from sightword.features.settings import RANDOM, is_weights_file
from sightword.images.decode import RejectError, decode, read_file
from sightword.images.resize import resize

if TYPE_CHECKING:
    from sightword.features.extractor import Extractor
    from sightword.features.identity import Transform

MAX_PIXELS = 50_000_000
"""Largest width times height of an uploaded picture."""
MAX_BYTES = 32 << 20
"""Largest file of an uploaded picture, in bytes."""

Floats = npt.NDArray[np.float32]


class UploadedPictures:
    """Computes features of uploaded pictures; the network is loaded for the first picture, and kept.

    Args:
        attributes: the root attributes of ``features.h5``, which describe how the features were made.
        known: the row of each picture of the collection by its sha256: a copy of one needs no network.
        weights: the file with the network's weights; None for published or random weights.
        device: where to compute.
    """

    def __init__(
        self,
        attributes: Mapping[str, Any],
        known: Mapping[str, int],
        *,
        weights: Path | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._attributes, self._known, self._weights = attributes, known, weights
        self._device = device or torch.device("cpu")
        self._extractor: Extractor | None = None
        self._turn = threading.Lock()

    @property
    def obstacle(self) -> str:
        """The reason why features like the collection's cannot be computed; empty where they can."""
        if not self._attributes.get("backbone"):
            origin = str(self._attributes.get("origin") or "of unknown origin")
            return f"the collection's features were not computed here ({origin}), so another picture's cannot be"
        try:
            _transform(self._attributes.get("transform", ""))
        except (ValueError, TypeError, FeaturesError):
            return "features.h5 does not say how its pictures were cropped and normalised"
        name = str(self._attributes.get("weights", ""))
        if is_weights_file(name) and self._weights is None:
            return f"the network's weights are a file of their own ({name}): give it with --weights"
        return ""

    def read(self, path: Path) -> bytes:
        """Read a picture file.

        Raises:
            SearchError: the file does not exist, or is too large.
        """
        try:
            return read_file(path, max_pixels=MAX_PIXELS)
        except RejectError as error:
            raise SearchError(f"the picture cannot be used: {error.detail}", where=path) from None

    def row(self, data: bytes) -> int | None:
        """Return the row of the same file in the collection; None for a new picture."""
        return self._known.get(hashlib.sha256(data).hexdigest())

    def features(self, data: bytes) -> Floats:
        """Return the features, float32 (D,), of a picture's file.

        Raises:
            SearchError: the picture cannot be decoded, or there is an :attr:`obstacle`.
            WeightsError: the network's weights are missing, or differ from the collection's.
            FeaturesError: the network is unknown.
        """
        if self.obstacle:
            raise SearchError(self.obstacle, todo="Choose a picture of the collection.")
        with self._turn:  # one picture at a time is decoded and held
            extractor = self._extractor = self._extractor or self._load()
            made = extractor.transform
            kind: Any = made.interpolation  # a name of Pillow's
            try:
                picture = decode(data, exif=made.exif, max_pixels=MAX_PIXELS)
                small = resize(picture, side=made.resize, interpolation=kind, max_pixels=MAX_PIXELS)
            except RejectError as error:
                raise SearchError(f"the picture cannot be used: {error.detail}") from None
            found: Floats = next(iter(extractor.run([np.array(small)])))
            return found

    def _load(self) -> Extractor:
        from sightword.features.backbones import cut, find_backbone
        from sightword.features.extractor import Extractor
        from sightword.features.weights import Weights

        attributes = {name: str(value) for name, value in self._attributes.items()}
        backbone = find_backbone(attributes["backbone"], attributes["feature_point"])
        name, sha256 = attributes["weights"], attributes["weights_sha256"]
        kind, _, seed = name.partition(":")
        if kind == RANDOM:
            weights = Weights(backbone, kind, seed=int(seed or 0))
        else:
            file = str(self._weights.absolute()) if self._weights and is_weights_file(name) else name
            weights = Weights(backbone, file, sha256=sha256)
        if weights.sha256 != sha256:
            what = "random weights are not the same here as where the collection's features were computed"
            todo = "Run the stage features again with this version of torch."
            raise SearchError(what, expected=f"the sha256 {sha256}", todo=todo)
        return Extractor(
            cut(weights.load(), weights.backbone),
            _transform(attributes["transform"]),
            precision="bf16" if attributes["precision"] == "bf16" else "fp32",
            device=self._device,
            threads=1,
        )


def _transform(text: object) -> Transform:
    """Return the transform as ``features.h5`` has it; an incomplete one is a ValueError or TypeError."""
    from sightword.features.identity import Transform

    return Transform(**json.loads(str(text)))
