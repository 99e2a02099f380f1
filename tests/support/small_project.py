"""A corpus of a dozen made-up pictures in the current folder: what the stage train reads, without the stages before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sightword.captions.settings import CaptionsSettings
from sightword.corpus.reading import clean
from sightword.corpus.records import Caption, Image, write_tables
from sightword.features.tables.table import Origin, write_features
from stages import captions

PICTURES = 12
WORDS = ("red", "green", "dog", "cat", "runs")


def name(number: int) -> str:
    return f"{number:02d}.jpg"


def begin(folder: Path, patch: pytest.MonkeyPatch, settings: CaptionsSettings | None = None) -> Path:
    """Go into a folder, write the corpus and the features, and set the stages to one thread of the CPU."""
    patch.chdir(folder)
    patch.setenv("SIGHTWORD_DEVICE", "cpu")
    patch.setenv("SIGHTWORD_THREADS", "1")
    write_corpus(settings=settings)
    write_pictures()
    return folder


def write_corpus(
    *, without: tuple[str, ...] = (), beside: Sequence[Caption] = (), settings: CaptionsSettings | None = None
) -> None:
    """Twelve pictures with two captions each, every third one for dev; ``without`` names splits that stay empty.

    ``beside`` has captions of other pictures. The captions are encoded too.
    """
    splits = {name(number): "dev" if number % 3 == 0 else "train" for number in range(PICTURES)}
    images = [Image(key, key, split) for key, split in splits.items() if split not in without]
    said = [
        Caption(image.image_id, str(place), f"{WORDS[int(image.image_id[:2]) % 5]} {WORDS[place]}")
        for image in images
        for place in range(2)
    ]
    corpus = replace(clean(images, said, None, require_pictures=False), beside=[*beside])
    write_tables("data/corpus", corpus, "pictures")
    captions.work(settings or CaptionsSettings())


def write_pictures(numbers: Iterable[int] = range(PICTURES), *, backbone: str = "resnet152", width: int = 6) -> None:
    """Random features of some pictures."""
    names = [name(number) for number in numbers]
    values = np.random.default_rng(0).normal(size=(len(names), width)).astype(np.float32)
    origin = Origin(backbone, "", "w", "", "{}", "fp32", "extracted")
    blocks = [(np.arange(len(names), dtype=np.int64), values)]
    write_features("data/features/features.h5", names, [""] * len(names), width, blocks, origin)
