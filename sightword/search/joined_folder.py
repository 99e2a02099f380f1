"""A folder of picture files as a collection, with the features of several networks side by side."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from sightword.features.joined import side_by_side
from sightword.images.resized import Source
from sightword.io.files import Pathish, canonical_json
from sightword.search.collection import Floats, PictureFolder, Piece
from sightword.search.network import NamedNetwork
from sightword.storage.store import Store


class JoinedFolder(PictureFolder):
    """A folder that one network after the other reads; a picture is there once all have read it.

    Args:
        folder: the folder.
        networks: the networks, in the order of their features.
        trained: the attributes of the features of all networks.
        device: where to compute.
        store: the store of features.
        workers: the most processes that decode pictures.
        sources: the pictures; None finds them here.

    Raises:
        SearchError, WeightsError, StoreError: as of :class:`PictureFolder`.
    """

    def __init__(
        self,
        folder: Pathish,
        networks: Sequence[NamedNetwork],
        trained: Mapping[str, Any],
        *,
        device: torch.device,
        store: Store,
        workers: int = 0,
        sources: list[Source] | None = None,
    ) -> None:
        self.parts: list[PictureFolder] = []
        for network in networks:
            part = PictureFolder(folder, network, device=device, store=store, workers=workers, sources=sources)
            self.parts.append(part)
            sources = part.sources
        self.folder, self.sources = folder, self.parts[0].sources
        self.dimension = sum(part.dimension for part in self.parts)
        transforms = [json.loads(part.attributes["transform"]) for part in self.parts]
        self.attributes = {**trained, "transform": canonical_json(transforms), "origin": "extracted"}
        self.rejected: dict[str, str] = {}
        self._done = set[str]()
        self._waiting: dict[str, dict[int, tuple[str, Floats]]] = {}

    def _read(self, add: Callable[[Piece], object], *, progress: bool, stop: threading.Event) -> None:
        for place, part in enumerate(self.parts):
            try:
                part._read(functools.partial(self._take, place, add), progress=progress, stop=stop)
            finally:
                self.rejected.update(part.rejected)

    def _take(self, place: int, add: Callable[[Piece], object], piece: Piece) -> None:
        """Keep the features of a network, and add the pictures that all networks have read."""
        whole = []
        for image_id, sha256, vector in zip(*piece, strict=True):
            found = self._waiting.setdefault(image_id, {})
            found[place] = sha256, vector
            if len({own for own, _ in found.values()}) > 1:
                self.rejected[image_id] = "the file changed while it was read"
            elif len(found) == len(self.parts):
                whole.append(image_id)
        if whole:
            rows = [[one[place] for place in range(len(self.parts))] for one in map(self._waiting.pop, whole)]
            vectors = [np.stack([row[place][1] for row in rows]) for place in range(len(self.parts))]
            self._done.update(whole)
            add(Piece(whole, [row[0][0] for row in rows], side_by_side(vectors)))
