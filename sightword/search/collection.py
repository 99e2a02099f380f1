"""A folder of picture files as a collection, with features of the network that an encoder was trained with."""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from sightword.cluster.processes import ordered_map
from sightword.errors import SearchError
from sightword.features.extraction import Extraction, rows_of
from sightword.features.settings import RANDOM, FeaturesSettings
from sightword.features.tables.table import FeatureTable
from sightword.images.decode import Reject
from sightword.images.encoding import Pixels
from sightword.images.resized import resize_to_array
from sightword.images.settings import ResizeSettings
from sightword.io.files import Pathish
from sightword.search.network import NamedNetwork
from sightword.search.picture_files import digests, list_pictures
from sightword.storage.store import Store

log = logging.getLogger(__name__)

PICTURES_A_WORKER = 50
"""Pictures that are worth the start of another reading process."""


def read_collection(
    folder: Pathish,
    network: NamedNetwork,
    *,
    device: torch.device,
    store: Store,
    workers: int = 0,
    progress: bool = False,
) -> FeatureTable:
    """Return the features of the pictures in a folder; the store keeps them.

    Pictures are rotated by their EXIF orientation, as viewers show them. The log names the files that cannot be used,
    which are left out.

    Args:
        folder: the folder; folders in it are searched too.
        network: the network that computes the features.
        device: where to compute.
        store: the store of features.
        workers: the most processes that read pictures; 0 reads in this process.
        progress: show a bar on standard error.

    Raises:
        SearchError: there is no picture, or the network's features cannot be computed.
        WeightsError: the network's weights are missing, or have another sha256.
        StoreError: the store cannot be used.
    """
    sources = list_pictures(folder)
    if network.obstacle:
        todo = "Search a collection whose features exist: --features FILE."
        raise SearchError(network.obstacle, where=folder, todo=todo)
    transform = replace(network.transform, exif=True)
    resizing = ResizeSettings.of_transform(transform.resize, transform.interpolation, exif=transform.exif)
    extraction = Extraction(_settings(network), resizing.transform, device=device, store=store)
    network.check(extraction.identity.weights_sha256)
    workers = min(workers, len(sources) // PICTURES_A_WORKER)
    rejected: dict[str, str] = {}
    sha256 = {}
    for source, found in zip(sources, digests(folder, sources, resizing, store, workers=workers), strict=True):
        if isinstance(found, Reject):
            rejected[source.image_id] = found.detail
        else:
            sha256[source.image_id] = found
    keys = {image_id: extraction.identity.key(digest) for image_id, digest in sha256.items()}
    by_key = {keys[source.image_id]: source for source in sources if source.image_id in keys}

    def read(missing: Collection[bytes]) -> Iterator[tuple[bytes, Pixels]]:
        reader = functools.partial(resize_to_array, settings=resizing)
        for key, one in zip(
            missing, ordered_map(reader, [by_key[key] for key in missing], workers=workers, chunk=4), strict=True
        ):
            if not isinstance(one, Reject) and extraction.identity.key(one[1]) == key:
                yield key, one[2]
                continue
            why = one.detail if isinstance(one, Reject) else "the file, or a copy of it, changed while it was read"
            rejected.update({image_id: why for image_id, other in keys.items() if other == key})

    rows, ids = rows_of(list(keys.values())), list(keys)
    features, there = np.empty((len(ids), extraction.dimension), np.float32), np.zeros(len(ids), bool)
    for some, values in extraction.run(rows, read, progress=progress):
        for key, value in zip(some, values, strict=True):
            features[rows[key]], there[rows[key]] = value, True
    for image_id, why in sorted(rejected.items()):
        log.warning("picture %s left out: %s", image_id, why)
    if not there.any():
        raise SearchError("none of its pictures can be used", where=folder)
    attributes = {**network.attributes, "transform": transform.as_json(), "origin": "extracted"}
    kept = [image_id for image_id, is_there in zip(ids, there, strict=True) if is_there]
    return FeatureTable(features[there], kept, [sha256[image_id] for image_id in kept], attributes, frozenset(rejected))


def _settings(network: NamedNetwork) -> FeaturesSettings:
    """Return the section ``features`` that gives a network's features."""
    made = network.transform
    try:
        settings = FeaturesSettings(
            backbone=network.backbone.name,
            feature_point=network.backbone.feature_point,
            weights=RANDOM,  # a path outside features.inputs would be refused
            weights_seed=network.seed,
            crops=made.crops,
            crop=made.crop,
            mean=_any(list(made.mean)),
            std=_any(list(made.std)),
            relu=made.relu,
            l2=made.l2,
            precision=_any(network.attributes.get("precision")),
        )
    except ValidationError as error:
        first = error.errors()[0]
        what = f"the encoder's notes on its features are damaged ({'.'.join(map(str, first['loc']))}: {first['msg']})"
        raise SearchError(what, todo="Take the folder of the encoder whole.") from None
    sha256 = "" if network.weights_name == RANDOM else network.sha256
    return settings.model_copy(update={"weights": network.weights_name, "weights_sha256": sha256, "inputs": "."})


def _any(value: object) -> Any:
    """Return a value that a section of the parameters checks."""
    return value
