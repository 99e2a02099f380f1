"""Opens the encoder, the collection and the reader of new pictures for the command ``search``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from sightword.captions.table import CaptionTable
    from sightword.features.table import FeatureTable
    from sightword.search.searcher import Searcher
    from sightword.search.uploads import UploadedPictures

FEATURES = Path("data/features/features.h5")
CAPTIONS = Path("data/captions/captions.parquet")
WEIGHTS = Path("data/raw/features")


def open_searcher(arguments: argparse.Namespace) -> tuple[Searcher, torch.device]:
    """Open the encoder and the collection; what is wrong with files and ids is reported before torch is loaded."""
    from sightword import machine
    from sightword.encoder.by_name import folder_and_space
    from sightword.encoder.pretrained import find_encoder, require_encoder
    from sightword.errors import SearchError
    from sightword.features.store import Store
    from sightword.search.picture_files import list_pictures

    settings = machine.current()
    folder, space = folder_and_space(arguments.encoder)
    if space is None:
        folder = find_encoder(arguments.encoder)
    require_encoder(folder)
    if arguments.weights is not None and not arguments.weights.is_file():
        raise SearchError("there is no such file of weights", where=arguments.weights)
    found = None
    if arguments.collection is None:
        found = _read(arguments)
        _check_pictures(arguments, *found)
    else:
        list_pictures(arguments.collection)

    from sightword.compute import devices
    from sightword.encoder.by_name import open_with_pictures
    from sightword.search.embeddings import KeptEmbeddings, kind_of
    from sightword.search.searcher import Searcher

    device = devices.use(settings, deterministic=False)
    encoder = open_with_pictures(folder if space is None else arguments.encoder, device=device)
    if found is None:
        found = _computed(arguments, encoder.notes.get("features") or {}, device), None
    kept = KeptEmbeddings(Store(settings.store), kind_of(folder, device.type))
    place = arguments.collection or arguments.features or FEATURES
    options = {"where": place, "split": arguments.split, "threads": settings.threads, "kept": kept}
    return Searcher(encoder, *found, **options), device


def _read(arguments: argparse.Namespace) -> tuple[FeatureTable, CaptionTable | None]:
    from sightword.captions.table import read_texts
    from sightword.errors import SearchError
    from sightword.features.table import read_features

    captions = arguments.captions or (CAPTIONS if CAPTIONS.is_file() else None)
    if captions is None and arguments.split is not None:
        raise SearchError("without captions the splits are not known", todo=f"Give --captions {CAPTIONS}.")
    if arguments.features is None and not FEATURES.exists():
        todo = "Name a folder of pictures (--collection FOLDER), or run `dvc repro` in a project."
        raise SearchError("there are no features of pictures to search", where=FEATURES, todo=todo)
    return read_features(arguments.features or FEATURES), None if captions is None else read_texts(captions)


def _computed(arguments: argparse.Namespace, attributes: dict[str, Any], device: torch.device) -> FeatureTable:
    """Return the features of the pictures in the folder of ``--collection``."""
    from sightword import machine
    from sightword.features.store import Store
    from sightword.search.collection import read_collection
    from sightword.search.network import NamedNetwork

    settings, network = machine.current(), NamedNetwork(attributes, _weights(arguments, attributes))
    options: dict[str, Any] = {"workers": settings.workers, "progress": True}
    return read_collection(arguments.collection, network, device=device, store=Store(settings.store), **options)


def _check_pictures(arguments: argparse.Namespace, table: FeatureTable, captions: CaptionTable | None) -> None:
    """Report a picture that is neither an id of the collection nor a file."""
    from sightword.search.catalogue import build

    names = [name for name in (arguments.picture, arguments.like) if name is not None]
    if any(not is_file(name) for name in names):
        catalogue = build(table.image_ids, captions, arguments.split)
        for name in names:
            if not is_file(name):
                catalogue.find(name)


def open_uploads(arguments: argparse.Namespace, searcher: Searcher, device: torch.device) -> UploadedPictures:
    """Return the reader of new pictures, with the image network of the encoder's features."""
    from sightword.search.uploads import UploadedPictures

    weights = _weights(arguments, searcher.attributes)
    return UploadedPictures(searcher.attributes, searcher.rows_of_files, weights=weights, device=device)


def _weights(arguments: argparse.Namespace, attributes: Mapping[str, Any]) -> Path | None:
    """Return the file of the image network's weights that features name; None for weights without a file."""
    file = WEIGHTS / str(attributes.get("weights", ""))
    return arguments.weights or (file if file.is_file() else None)


def is_file(name: str) -> bool:
    """Return whether a THING is the path of a file."""
    try:
        return Path(name).is_file()
    except OSError:  # a sentence may be too long for a path
        return False
