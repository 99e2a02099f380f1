"""The library's door: features of any list of picture files."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from pydantic import ValidationError
from tqdm import tqdm

from sightword import devices, machine
from sightword.errors import FeaturesError, PictureError
from sightword.features.backbones import find_backbone
from sightword.features.extraction import Extraction, rows_of
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD, RANDOM, Crops, FeaturesSettings, Precision
from sightword.features.store import Store
from sightword.features.table import Array
from sightword.features.transform import of_settings
from sightword.features.weights import Weights
from sightword.files import Pathish
from sightword.images.decode import Reject
from sightword.images.encoding import Pixels
from sightword.images.resized import Source, hash_file, resize_to_array
from sightword.images.settings import Interpolation, ResizeSettings
from sightword.images.workers import ordered_map

Result = TypeVar("Result")


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
    interpolation: Interpolation = "lanczos",
    exif: bool = False,
    crops: Crops = "ten",
    crop: int = 224,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    relu: bool = False,
    l2: bool = False,
    max_pixels: int = 100_000_000,
    store: Pathish | None = None,
    device: torch.device | str | None = None,
    workers: int = 0,
    progress: bool = False,
) -> Array:
    """Features of picture files, the same numbers as the stage stores.

    The defaults are the published transform of Merkx & Frank 2019: smaller side 256 by
    Lanczos, ten crops of 224, ResNet-152 with its first ImageNet weights, the average
    pool's 2048 values, mean of the ten.

    Args:
        pictures: paths, N of them; copies of a file are computed once.
        backbone: a torchvision classifier by the name of its builder.
        weights: a name of torchvision's weights enum, a path, or ``random``.
        precision: ``fp32``, or ``bf16`` for bfloat16.
        feature_point: empty for what enters the classifier, or a name such as ``fc6``.
        weights_sha256: checked where given.
        weights_seed: of random weights.
        resize: the smaller side, in pixels.
        interpolation: Pillow's filter.
        exif: turn the pictures as their EXIF orientation says.
        crops: ``ten``, ``five`` or ``one``.
        crop: the side of a crop, in pixels.
        mean: of red, green and blue.
        std: of red, green and blue.
        relu: cut each crop's features at zero before the mean.
        l2: scale the mean to length 1.
        max_pixels: larger pictures are refused.
        store: a folder that remembers features, which may be the stages' own
            (``SIGHTWORD_STORE``); None computes all anew and writes nothing.
        device: where to compute; None for what ``SIGHTWORD_DEVICE`` says.
        workers: processes that decode; more than 0 needs ``if __name__ == "__main__":`` in a script.
        progress: show a bar on standard error.

    Returns:
        float32 (N, D), row i for picture i.

    Raises:
        PictureError: a picture cannot be used; its path and the reason.
        FeaturesError: there is no such backbone or choice, or a picture is not given by its path.
        WeightsError: the weights are missing or not those asked for.
        StoreError: the store cannot be used.
    """
    paths = _paths(pictures)
    _refuse_wrong_types(weights, weights_sha256, store, workers)
    resizing, checked = _checked(
        {"side": resize, "interpolation": interpolation, "exif": exif, "max_pixels": max_pixels},
        {
            "backbone": backbone,
            "feature_point": feature_point,
            "weights_seed": _whole(weights_seed),
            "crops": crops,
            "crop": crop,
            "mean": _floats(mean),
            "std": _floats(std),
            "relu": relu,
            "l2": l2,
            "precision": precision,
        },
    )
    transform = of_settings(checked, {"resize": resize, "interpolation": interpolation, "exif": exif})
    place = devices.choose(machine.current().device if device is None else str(device))
    name = weights if isinstance(weights, str) else str(Path(weights).absolute())
    extraction = Extraction(
        Weights(find_backbone(backbone, feature_point), name, sha256=weights_sha256, seed=checked.weights_seed),
        transform,
        precision=precision,
        device=place,
        store=None if store is None else Store(Path(store).expanduser()),
    )
    # What goes to other processes is of rooms that do not load torch.
    hasher = functools.partial(hash_file, settings=resizing)
    reader = functools.partial(resize_to_array, settings=resizing)
    sources = [Source(path, path) for path in paths]
    keys = [
        extraction.identity.key(_usable(sha256)) for sha256 in ordered_map(hasher, sources, workers=workers, chunk=16)
    ]
    by_key = dict(zip(keys, sources, strict=True))

    def read(missing: Collection[bytes]) -> Iterator[tuple[bytes, Pixels]]:
        found = ordered_map(reader, [by_key[key] for key in missing], workers=workers, chunk=4)
        for key, result in zip(missing, found, strict=True):
            path, sha256, pixels = _usable(result)
            if extraction.identity.key(sha256) != key:
                raise PictureError("changed while it was read", where=path)
            yield key, pixels

    rows = rows_of(keys)
    features = np.empty((len(sources), extraction.dimension), np.float32)
    with tqdm(total=len(rows), desc="features", unit="picture", disable=None if progress else True) as bar:
        for found, values in extraction.run(rows, read, bar.update):
            for key, value in zip(found, values, strict=True):
                features[rows[key]] = value
    return features


def _paths(pictures: object) -> list[str]:
    """The paths of pictures, in their order."""
    if isinstance(pictures, str | bytes | os.PathLike):
        raise FeaturesError("pictures is one path", where=str(pictures), expected="a list of paths")
    if isinstance(pictures, Mapping | Set) or not isinstance(pictures, Iterable):
        raise FeaturesError(f"pictures are {type(pictures).__name__}", expected="a list of paths")
    paths = []
    for place, picture in enumerate(pictures):
        path = os.fspath(picture) if isinstance(picture, str | os.PathLike) else None
        if not isinstance(path, str):
            raise FeaturesError(
                f"picture {place} is {type(picture).__name__}", expected="the path of a picture file, as text or a Path"
            )
        paths.append(path)
    return paths


def _refuse_wrong_types(weights: object, weights_sha256: object, store: object, workers: object) -> None:
    """Check the arguments that are no parameters of the stage, which no settings check."""
    if not isinstance(weights, str | os.PathLike):
        raise FeaturesError(f"weights is {weights!r}", expected="a name of torchvision's weights, a path, or random")
    if not isinstance(weights_sha256, str):
        raise FeaturesError(f"weights_sha256 is {weights_sha256!r}", expected="64 hex digits, or ''")
    if store is not None and not (isinstance(store, str | os.PathLike) and str(store)):
        raise FeaturesError("store names no folder", where=f"store={store!r}", expected="a folder, or None for none")
    if not isinstance(workers, int | np.integer) or workers < 0:
        raise FeaturesError(f"workers is {workers!r}", expected="0 or more processes")


def _whole(value: object) -> object:
    """Return a whole number of NumPy as Python's, and anything else unchanged: the settings refuse it."""
    return int(value) if isinstance(value, np.integer) else value


def _floats(values: object) -> object:
    """Return numbers of any kind as Python's, and anything else unchanged: the settings refuse it."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return values
    found = list(values)
    try:
        return [float(value) for value in found]
    except (TypeError, ValueError, OverflowError):
        return found


def _checked(resizing: dict[str, object], extracting: dict[str, object]) -> tuple[ResizeSettings, FeaturesSettings]:
    """The arguments, checked as parameters are."""
    try:
        return ResizeSettings.model_validate(resizing), FeaturesSettings.model_validate(
            {**extracting, "weights": RANDOM}
        )
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}".lstrip(": ") for item in error.errors()]
        raise FeaturesError(f"no such choice ({'; '.join(wrong)})") from None


def _usable(result: Result | Reject) -> Result:
    if isinstance(result, Reject):
        raise PictureError(
            f"cannot be used ({result.reason}: {result.detail})",
            where=result.image_id,
            todo="Take it out of the list, or fix it: docs/pictures.md describes how.",
        )
    return result
