"""From pictures to features: of the stage's shards into ``features.h5``, and of any list of files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from tqdm import tqdm

from pipeline import devices, machine
from pipeline.errors import FeaturesError, PictureError
from pipeline.features.backbones import cut, find_backbone
from pipeline.features.extractor import Clock, Extractor
from pipeline.features.settings import IMAGENET_MEAN, IMAGENET_STD, Crops, FeaturesSettings, Precision
from pipeline.features.table import Array, Origin, Rows, write_features
from pipeline.features.transform import Transform, of_settings
from pipeline.features.weights import load
from pipeline.files import Pathish
from pipeline.images.decode import Reject
from pipeline.images.encoding import Pixels
from pipeline.images.resized import Source, read_rejects, resize_to_array
from pipeline.images.settings import Interpolation, ResizeSettings
from pipeline.images.shards import Group, list_groups, read_group_arrays, read_ids, read_transform
from pipeline.images.workers import ordered_map

GROUPS_A_WORKER = 8
"""Row groups that make the start of another reading process worth its time."""

_AGAIN = "Run the stages corpus and resize again."


@dataclass(frozen=True)
class Summary:
    """What :func:`extract_resized` did."""

    pictures: int
    computed: int
    rejected: int
    clock: Clock


def extract_resized(
    path: Pathish,
    image_ids: Sequence[str],
    resized: Pathish,
    settings: FeaturesSettings,
    *,
    device: torch.device,
    workers: int = 0,
    progress: bool = False,
) -> Summary:
    """Extract the features of resized pictures and write ``features.h5``.

    Args:
        path: the file to write.
        image_ids: the pictures of the corpus.
        resized: the folder that the stage resize wrote.
        settings: the section ``features``, with source ``extract``.
        device: where the network works.
        workers: processes that decode the shards, at most; 0 for none beside this one.
        progress: show a bar on standard error.

    Raises:
        FeaturesError: no pictures, or not those of the corpus.
        WeightsError: the weights are missing or not those asked for.
        FileFormatError: a shard is damaged.
    """
    pairs, rejects = read_ids(resized), read_rejects(resized)
    _check_ids(image_ids, [image_id for image_id, _ in pairs], rejects, resized)
    transform = of_settings(settings, read_transform(resized))
    backbone = find_backbone(settings.backbone, settings.feature_point)
    loaded = load(
        backbone,
        settings.weights,
        sha256=settings.weights_sha256,
        seed=settings.weights_seed,
        folder=settings.inputs,
    )
    origin = Origin(
        backbone=backbone.name,
        feature_point=backbone.feature_point,
        weights=loaded.weights,
        weights_sha256=loaded.sha256,
        transform=transform.as_json(),
        precision=settings.precision,
        origin="extracted",
    )
    extractor = Extractor(cut(loaded.network, backbone), transform, precision=settings.precision, device=device)
    places = {image_id: row for row, (image_id, _) in enumerate(pairs)}
    groups = list_groups(resized)
    workers = min(workers, len(groups) // GROUPS_A_WORKER)
    with tqdm(total=len(pairs), desc="features", unit="picture", disable=None if progress else True) as bar:
        blocks = _blocks(extractor, groups, places, workers, bar)
        write_features(
            path,
            [pair[0] for pair in pairs],
            [pair[1] for pair in pairs],
            extractor.dimension,
            blocks,
            origin,
            [reject.image_id for reject in rejects],
        )
    return Summary(len(image_ids), extractor.clock.pictures, len(rejects), extractor.clock)


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
    device: torch.device | str | None = None,
    workers: int = 0,
    progress: bool = False,
) -> Array:
    """Features of picture files, the same numbers as the stage stores.

    The defaults are the published transform of Merkx & Frank 2019: smaller side 256 by
    Lanczos, ten crops of 224, ResNet-152 with its first ImageNet weights, the average
    pool's 2048 values, mean of the ten.

    Args:
        pictures: paths, N of them.
        backbone: a torchvision classifier by the name of its builder.
        weights: a name of torchvision's weights enum, a path, or ``random``.
        precision: ``fp32``, or ``bf16`` for bfloat16 autocast.
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
        device: where to compute; None for what ``SIGHTWORD_DEVICE`` says.
        workers: processes that decode; more than 0 needs ``if __name__ == "__main__":`` in a script.
        progress: show a bar on standard error.

    Returns:
        float32 (N, D), row i for picture i.

    Raises:
        PictureError: a picture cannot be used; its path and the reason.
        FeaturesError: no such backbone, or a choice that is none.
        WeightsError: the weights are missing or not those asked for.
    """
    for name, value, literal in (
        ("interpolation", interpolation, Interpolation),
        ("crops", crops, Crops),
        ("precision", precision, Precision),
    ):
        if value not in get_args(literal):
            raise FeaturesError("no such choice", where=f"{name}={value!r}", expected=" or ".join(get_args(literal)))
    transform = Transform(resize, interpolation, exif, crops, crop, tuple(mean), tuple(std), relu, l2)
    settings = ResizeSettings(side=resize, interpolation=interpolation, exif=exif, max_pixels=max_pixels)
    place = devices.use(machine.current()) if device is None else torch.device(device)
    found = find_backbone(backbone, feature_point)
    name = weights if isinstance(weights, str) else str(Path(weights).absolute())
    loaded = load(found, name, sha256=weights_sha256, seed=weights_seed)
    extractor = Extractor(cut(loaded.network, found), transform, precision=precision, device=place)
    features = np.empty((len(pictures), extractor.dimension), np.float32)
    sources = [Source(os.fspath(path), os.fspath(path)) for path in pictures]
    arrays = ordered_map(_Reader(settings), sources, workers=workers, chunk=4)
    bar = tqdm(arrays, total=len(sources), desc="features", unit="picture", disable=None if progress else True)
    for row, feature in enumerate(extractor.run(_usable(bar))):
        features[row] = feature
    return features


@dataclass(frozen=True)
class _Reader:
    """Reads one picture file; an object, so that it travels to other processes."""

    settings: ResizeSettings

    def __call__(self, source: Source) -> tuple[str, str, Pixels] | Reject:
        return resize_to_array(source, self.settings)


def _usable(read: Iterable[tuple[str, str, Pixels] | Reject]) -> Iterator[Pixels]:
    for result in read:
        if isinstance(result, Reject):
            raise PictureError(f"cannot be used ({result.reason}: {result.detail})", where=result.image_id)
        yield result[2]


def _blocks(
    extractor: Extractor, groups: Sequence[Group], places: dict[str, int], workers: int, bar: tqdm[Any]
) -> Iterator[tuple[Rows, Array]]:
    """Features by row group of the shards, with the rows they belong to."""
    order: list[int] = []

    def pictures() -> Iterator[Pixels]:
        for group in ordered_map(read_group_arrays, groups, workers=workers):
            for image_id, _, pixels in group:
                order.append(places[image_id])
                yield pixels

    rows: list[int] = []
    values: list[Array] = []
    for feature in extractor.run(pictures()):
        values.append(feature)
        rows.append(order[0])
        del order[0]
        bar.update()
        if len(rows) == 256:
            yield np.array(rows, np.int64), np.stack(values)
            rows, values = [], []
    if rows:
        yield np.array(rows, np.int64), np.stack(values)


def _check_ids(corpus: Sequence[str], resized: Sequence[str], rejects: Sequence[Reject], where: Pathish) -> None:
    """The resized pictures and the rejects are those of the corpus, and there are some."""
    if not resized:
        raise FeaturesError(
            "there are no pictures to extract features from",
            where=where,
            todo="Give the corpus its pictures (corpus.pictures), or set features.source to precomputed.",
        )
    absent = sorted(set(corpus) - set(resized) - {reject.image_id for reject in rejects})
    if absent:
        raise FeaturesError(
            f"{len(absent)} pictures of the corpus are not there: {', '.join(absent[:5])}", where=where, todo=_AGAIN
        )
    extra = sorted(set(resized) - set(corpus))
    if extra:
        raise FeaturesError(
            f"{len(extra)} pictures are not of the corpus: {', '.join(extra[:5])}", where=where, todo=_AGAIN
        )
