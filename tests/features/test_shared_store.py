"""A store that several people share: other pixels or other code never give or leave a wrong feature there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from sightword.features.compute import ResizedCorpus
from sightword.features.settings import FeaturesSettings
from sightword.images import resized
from sightword.images.resized import Source, write_resized
from sightword.images.settings import ResizeSettings
from sightword.storage.store import Store

COUNT, SIDE = 5, 56


SETTINGS = FeaturesSettings(backbone="squeezenet1_1", weights="random", weights_seed=1, crop=48, crops="one")


@pytest.fixture
def sources(tmp_path) -> list[Source]:
    rng, found = np.random.default_rng(0), []
    for number in range(COUNT):
        blocks = rng.integers(0, 256, (4, 5, 3), np.uint8).repeat(20, 0).repeat(20, 1)
        found.append(Source(f"{number}", str(tmp_path / f"{number}.png")))
        Image.fromarray(blocks).save(found[-1].path)
    return found


@dataclasses.dataclass
class Person:
    """One with a clone of the project; the store is the lab's unless another is named."""

    folder: Path
    sources: list[Source]

    def resize(self, **settings: object) -> None:
        write_resized(self.folder / "resized", self.sources, ResizeSettings(side=SIDE, shards=2, **settings))

    def features(self, store: str = "lab", **settings: object) -> tuple[int, bytes]:
        """The number of computed features, and the bytes of the file."""
        ids, place = [source.image_id for source in self.sources], Store(self.folder.parent / store)
        changed = SETTINGS.model_copy(update=settings)
        corpus = ResizedCorpus(ids, self.folder / "resized", changed, store=place, device=torch.device("cpu"))
        summary = corpus.write(self.folder / "f.h5")
        assert summary.stored == COUNT - summary.computed
        return summary.computed, (self.folder / "f.h5").read_bytes()


@pytest.fixture
def people(tmp_path, sources) -> list[Person]:
    return [Person(tmp_path / name, sources) for name in ("ana", "ben", "cleo")]


def inverted(monkeypatch) -> None:
    """Edit the code that resizes."""
    honest = resized.resize
    monkeypatch.setattr(resized, "resize", lambda picture, **how: ImageOps.invert(honest(picture, **how)))


def another_pillow(monkeypatch) -> None:
    """Decode to pixels that differ in the last bit."""
    honest = resized.decode
    monkeypatch.setattr(resized, "decode", lambda data, **how: honest(data, **how).point(lambda value: value ^ 1))


@pytest.mark.parametrize("change", [inverted, another_pillow])
def test_pixels_that_changed_are_computed_anew(people, monkeypatch, change) -> None:
    ana, ben, cleo = people
    ana.resize()
    computed, honest = ana.features()
    assert computed == COUNT
    with monkeypatch.context() as patch:
        change(patch)
        ben.resize()
    computed, other = ben.features()
    assert computed == COUNT
    assert other == ben.features("cold")[1] != honest
    cleo.resize()
    assert cleo.features() == (0, honest)


def test_equal_pixels_of_other_files_and_settings_are_found(people, tmp_path) -> None:
    """Pictures that have the side already are the same pixels by every filter."""
    ana, ben, _ = people
    for number, source in enumerate(ana.sources):
        pixels = np.random.default_rng(number).integers(0, 256, (SIDE, SIDE + number, 3), np.uint8)
        Image.fromarray(pixels).save(source.path)
        Image.fromarray(pixels).save(tmp_path / f"{number}.bmp")
    ana.resize()
    values = ana.features()[1]
    ben.sources = [Source(one.image_id, one.path.replace(".png", ".bmp")) for one in ana.sources]
    ben.resize(interpolation="nearest", exif=True)
    computed, other = ben.features()
    assert computed == 0
    assert other != values  # the file states how its pictures were resized, and names their files
