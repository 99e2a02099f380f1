"""Compute the features of any list of picture files."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from pydantic import ValidationError
from tqdm import tqdm

from sightword import machine
from sightword.compute import devices
from sightword.compute.processes import ordered_map
from sightword.errors import FeaturesError, PictureError
from sightword.features.extraction import Extraction
from sightword.features.settings import RANDOM, Crops, FeaturesSettings, Precision
from sightword.features.tables.table import Array
from sightword.images.decode import Reject
from sightword.images.encoding import Pixels
from sightword.images.resized import Source, resize_file
from sightword.images.settings import Fit, Interpolation, ResizeSettings
from sightword.images.shards import ResizedPicture
from sightword.io.files import Pathish
from sightword.settings import Settings, explain
from sightword.storage.store import Store

Section = TypeVar("Section", bound=Settings)


def extract(
    pictures: Sequence[Pathish],
    backbone: str = "resnet152",
    weights: Pathish = "IMAGENET1K_V1",
    precision: Precision = "fp32",
    *,
    feature_point: str = "",
    weights_sha256: str = "",
    weights_seed: int = 0,
    resize: int = 256,
    fit: Fit = "keep",
    interpolation: Interpolation = "lanczos",
    exif: bool = False,
    crops: Crops = "ten",
    crop: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    relu: bool = False,
    l2: bool = False,
    max_pixels: int = 100_000_000,
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
        backbone: a network by its name, as :func:`sightword.features.backbones.find_backbone` takes it.
        weights: a name of torchvision's weights enum, ``package``, ``hub``, a path, or ``random``.
        precision: ``fp32``, or ``bf16`` for bfloat16.
        feature_point: empty for the input of the classifier, or a name such as ``fc6`` or ``cls``.
        weights_sha256: the expected sha256 of the weights, in hex; empty: not compared.
        weights_seed: the seed of random weights.
        resize: the smaller side, in pixels.
        fit: ``keep`` the proportions, or ``squash`` both sides to ``resize``.
        interpolation: the name of Pillow's filter.
        exif: rotate the pictures by their EXIF orientation.
        crops: ``ten``, ``five`` or ``one``.
        crop: the side of a crop, in pixels; None for the network's own.
        mean: the means of red, green and blue; None for the network's own.
        std: the standard deviations of red, green and blue; None for the network's own.
        relu: apply a ReLU to the features of each crop.
        l2: scale the mean of the crops to length 1.
        max_pixels: larger pictures are refused.
        store: the folder or the address of a store, which may be the stage's (``SIGHTWORD_STORE``); None computes all
            features anew.
        device: where to compute; None for the device of ``SIGHTWORD_DEVICE``.
        workers: processes that decode; more than 0 needs ``if __name__ == "__main__":`` in a script.
        progress: show a bar on standard error.

    Returns:
        float32 (N, D), row i for picture i.

    Raises:
        PictureError: a picture cannot be used; the message has its path and the reason.
        FeaturesError: an argument is unknown or out of range.
        WeightsError: the weights are missing, or differ from the requested weights.
        StoreError: the store cannot be used.
    """
    paths = _paths(pictures)
    for name, value, fits, expected in (
        ("weights", weights, isinstance(weights, str | os.PathLike), "the name of weights, or a path"),
        ("weights_sha256", weights_sha256, isinstance(weights_sha256, str), "64 hex digits, or ''"),
        (
            "store",
            store,
            store is None or (isinstance(store, str | os.PathLike) and str(store)),
            "a folder, an address, or None",
        ),
        ("workers", workers, isinstance(workers, int | np.integer) and workers >= 0, "0 or more processes"),
    ):
        if not fits:
            raise FeaturesError(f"{name} is {value!r}", expected=expected)
    resizing = _checked(
        ResizeSettings,
        side=resize,
        fit=fit,
        interpolation=interpolation,
        exif=exif,
        max_pixels=max_pixels,
        encoding="raw",
    )
    settings = _checked(
        FeaturesSettings,
        backbone=backbone,
        feature_point=feature_point,
        weights=RANDOM,  # a path outside features.inputs would be refused
        weights_seed=weights_seed,
        crops=crops,
        crop=crop,
        mean=mean,
        std=std,
        relu=relu,
        l2=l2,
        precision=precision,
    )
    name = weights if isinstance(weights, str) else str(Path(weights).absolute())
    extraction = Extraction(
        settings.model_copy(update={"weights": name, "weights_sha256": weights_sha256, "inputs": "."}),
        resizing.transform,
        device=devices.choose(machine.current().device if device is None else str(device)),
        store=None if store is None else Store(store),
    )
    # Other processes get only functions of rooms that do not load torch.
    reader = functools.partial(resize_file, settings=resizing)
    features = np.empty((len(paths), extraction.dimension), np.float32)
    firsts, rows = dict[str, int](), list[int]()

    def decoded() -> Generator[tuple[int, str, Pixels], None, None]:
        found = ordered_map(reader, [Source(path, path) for path in paths], workers=workers, chunk=4)
        for row, picture in enumerate(map(_usable, found)):
            rows.append(firsts.setdefault(picture.pixels_sha256, row))
            if rows[row] == row:
                yield row, picture.pixels_sha256, picture.array()

    with tqdm(total=len(paths), desc="features", unit="picture", disable=None if progress else True) as bar:

        def keep(owners: list[int], values: Array) -> None:
            features[owners] = values
            bar.update(len(owners))

        with contextlib.closing(decoded()) as found:
            extraction.follow(found, keep)
        copies = [row for row, first in enumerate(rows) if first != row]
        features[copies] = features[[rows[row] for row in copies]]
        bar.update(len(copies))
    return features


def _paths(pictures: object) -> list[str]:
    """Return the paths of pictures as texts, in the given order."""
    if isinstance(pictures, str | bytes | os.PathLike | Mapping | Set) or not isinstance(pictures, Iterable):
        raise FeaturesError(f"pictures are {type(pictures).__name__}", expected="a list of paths")
    paths = [os.fspath(picture) if isinstance(picture, os.PathLike) else picture for picture in pictures]
    for place, path in enumerate(paths):
        if not isinstance(path, str):
            what = f"picture {place} is {type(path).__name__}"
            raise FeaturesError(what, expected="the path of a picture file, as text or a Path")
    return paths


def _checked(section: type[Section], **values: object) -> Section:
    """Return arguments as a section of the parameters, which checks them."""
    try:
        return section.model_validate({name: _plain(value) for name, value in values.items()})
    except ValidationError as error:
        wrong = "; ".join(explain(section, item) for item in error.errors())
        raise FeaturesError(f"no such choice ({wrong})") from None


def _plain(value: object) -> object:
    """Return the numbers of NumPy and torch, also within a sequence, as Python's."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray | torch.Tensor) else value


def _usable(result: ResizedPicture | Reject) -> ResizedPicture:
    if isinstance(result, Reject):
        todo = "Take it out of the list, or fix it: docs/features.md describes how."
        raise PictureError(f"cannot be used ({result.reason}: {result.detail})", where=result.image_id, todo=todo)
    return result
