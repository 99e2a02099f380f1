"""Features of an uploaded picture, computed in the same way as the features of the collection."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from sightword.errors import SearchError
from sightword.features.joined import parts_of, side_by_side
from sightword.images.decode import RejectError, decode, read_file
from sightword.images.resize import resize
from sightword.search.network import NamedNetwork

if TYPE_CHECKING:
    from sightword.features.extractor import Extractor

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
            self._extractors = self._extractors or [self._load(network) for network in self._networks]
            parts = [self._of(extractor, data) for extractor in self._extractors]
            return parts[0] if len(parts) == 1 else side_by_side(parts)

    def _of(self, extractor: Extractor, data: bytes) -> Floats:
        """Return the features of a picture's file by one network."""
        made = extractor.transform
        kind: Any = made.interpolation  # a name of Pillow's
        try:
            picture = decode(data, exif=made.exif, max_pixels=MAX_PIXELS)
            small = resize(picture, size=made.resize, interpolation=kind, max_pixels=MAX_PIXELS)
        except RejectError as error:
            raise SearchError(f"the picture cannot be used: {error.detail}") from None
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
