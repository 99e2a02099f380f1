"""Compute the features of any list of picture files."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Generator, Sequence

import numpy as np
import torch
from tqdm import tqdm

from sightword import machine
from sightword.compute import devices
from sightword.compute.processes import ordered_map
from sightword.errors import FeaturesError, PictureError
from sightword.features.extraction import Extraction
from sightword.features.settings import FeaturesSettings
from sightword.features.tables.table import Array
from sightword.images.decode import Reject
from sightword.images.encoding import Pixels
from sightword.images.resized import Source, resize_file
from sightword.images.settings import ResizeSettings
from sightword.io.files import Pathish
from sightword.storage.store import Store


def extract(
    pictures: Sequence[Pathish],
    settings: FeaturesSettings | None = None,
    resize: ResizeSettings | None = None,
    *,
    store: Pathish | None = None,
    device: torch.device | str | None = None,
    workers: int = 0,
    progress: bool = False,
) -> Array:
    """Return the features of picture files, with the same bits as the stage stores.

    The defaults are the published transform of Merkx & Frank 2019: smaller side 256 by Lanczos, ten crops of 224,
    ResNet-152 with its first ImageNet weights, the 2048 values of the average pool, mean of the ten crops.

    Args:
        pictures: N paths; pictures with the same pixels are computed once.
        settings: the section ``features``, with source ``extract``; ``inputs`` is the folder of weights in a file.
        resize: the section ``resize``.
        store: the folder or the address of a store, which may be the stage's (``SIGHTWORD_STORE``); None computes all
            features anew.
        device: where to compute; None for the device of ``SIGHTWORD_DEVICE``.
        workers: processes that decode; more than 0 needs ``if __name__ == "__main__":`` in a script.
        progress: show a bar on standard error.

    Returns:
        float32 (N, D), row i for picture i.

    Raises:
        PictureError: a picture cannot be used; the message has its path and the reason.
        FeaturesError: the network is unknown, or crops do not fit.
        WeightsError: the weights are missing, or differ from the requested weights.
        StoreError: the store cannot be used.
    """
    if isinstance(pictures, str | bytes | os.PathLike):
        raise FeaturesError(f"pictures are {type(pictures).__name__}", expected="a list of paths")
    paths, resize = [os.fspath(picture) for picture in pictures], resize or ResizeSettings()
    extraction = Extraction(
        settings or FeaturesSettings(),
        resize.transform,
        device=devices.choose(machine.current().device if device is None else str(device)),
        store=None if store is None else Store(store),
    )
    # Other processes get only functions of rooms that do not load torch.
    reader = functools.partial(resize_file, settings=resize.model_copy(update={"encoding": "raw"}))
    features = np.empty((len(paths), extraction.dimension), np.float32)
    firsts, rows = dict[str, int](), list[int]()

    def decoded() -> Generator[tuple[int, str, Pixels], None, None]:
        results = ordered_map(reader, [Source(path, path) for path in paths], workers=workers, chunk=4)
        for row, picture in enumerate(results):
            if isinstance(picture, Reject):
                what = f"cannot be used ({picture.reason}: {picture.detail})"
                todo = "Take it out of the list, or fix it: docs/features.md describes how."
                raise PictureError(what, where=picture.image_id, todo=todo)
            rows.append(firsts.setdefault(picture.pixels_sha256, row))
            if rows[row] == row:
                yield row, picture.pixels_sha256, picture.array()

    with tqdm(total=len(paths), desc="features", unit="picture", disable=None if progress else True) as bar:

        def keep(owners: list[int], values: Array) -> None:
            features[owners] = values
            bar.update(len(owners))

        with contextlib.closing(decoded()) as decoding:
            extraction.follow(decoding, keep)
        copies = [row for row, first in enumerate(rows) if first != row]
        features[copies] = features[[rows[row] for row in copies]]
        bar.update(len(copies))
    return features
