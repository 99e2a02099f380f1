"""Generates the whole sample: the pictures in a folder and the records of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tqdm import tqdm

from sightword.corpus.compact import Captions, Pictures
from sightword.corpus.records import Caption, Corpus, Image
from sightword.corpus.sample.drawing import draw_scene
from sightword.corpus.sample.grammar import attributes, captions
from sightword.corpus.sample.scene import scenes_of, stream
from sightword.corpus.sample.world import World
from sightword.settings import SPLITS


def make_sample(world: World, pictures: Path, *, progress: bool = False) -> Corpus:
    """Draw every picture, PNG and JPEG files of several sizes in an existing folder, and return them with captions.

    CorpusError if the world has too few different scenes.
    """
    scenes = [(split, number, scene) for split in SPLITS for number, scene in enumerate(scenes_of(world, split))]
    images: list[Image] = []
    texts: list[Caption] = []
    drawn: list[tuple[str, str]] = []
    for split, number, scene in tqdm(scenes, desc="drawing", unit="picture", disable=None if progress else True):
        rng = stream(world, split, number, "picture")
        width, height = rng.choice(world.sizes)
        as_jpeg = rng.random() < world.jpeg
        name = f"{split}-{number:04}.{'jpg' if as_jpeg else 'png'}"
        options: dict[str, Any] = {"quality": 92, "subsampling": 0} if as_jpeg else {}
        draw_scene(scene, (width, height), world, rng).save(pictures / name, **options)
        images.append(Image(name, name, split))
        drawn += [(name, words) for words in attributes(scene, world)]
        own = captions(scene, world, stream(world, split, number, "captions"))
        texts += [Caption(name, str(key), text) for key, text in enumerate(own)]
    by_id = sorted(range(len(images)), key=lambda place: images[place].image_id)
    captioned = sorted(texts, key=lambda text: text.image_id)
    named = Pictures.of(images[place] for place in by_id)
    return Corpus(named, by_id, Captions.of(captioned, named), drawn=sorted(drawn))
