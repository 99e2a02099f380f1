"""The generated sample: its scenes, sentences, gold scores and pictures."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.corpus.sample.drawing import draw_scene, make_sample
from sightword.corpus.sample.scene import (
    Group,
    Scene,
    World,
    converse,
    fit,
    load_world,
    random_scene,
    scenes_of,
    stream,
)
from sightword.corpus.sample.sentences import (
    captions,
    follows,
    leave_out,
    likeness,
    sick_pair,
)
from sightword.errors import CorpusError

seeds = st.integers(0, 10**9)


@pytest.fixture(scope="module")
def world(repository: Path) -> World:
    return load_world(repository / "data/raw/sample/scenes.yaml")


@pytest.fixture(scope="module")
def tiny(world: World) -> World:
    pictures = world.pictures | {"train": 6, "dev": 2, "test": 2}
    pairs = world.pairs.model_copy(update={"scenes": 20, "details": 20})
    return world.model_copy(update={"pictures": pictures, "pairs": pairs})


def differences(one: Scene, other: Scene) -> int:
    """The properties in which two scenes with the groups in the same order differ."""
    found = (one.background != other.background) + (one.layout != other.layout)
    for left, right in zip(one.groups, other.groups, strict=True):
        found += sum(getattr(left, name) != getattr(right, name) for name in ("shape", "colour", "size", "count"))
    return found


def test_no_two_splits_share_objects_on_a_background(world: World) -> None:
    shown = [{scene.objects() for scene in scenes_of(world, split)} for split in ("train", "dev", "test")]
    assert sum(map(len, shown)) == len(set().union(*shown))
    assert len(shown[0]) == 320


@pytest.mark.parametrize("split", ["dev", "test"])
def test_five_of_six_scenes_differ_in_one_property(world: World, split: str) -> None:
    scenes = scenes_of(world, split)
    assert len(scenes) == len({frozenset((scene, converse(scene, world))) for scene in scenes}) == 120
    rows = [scenes[start : start + 6] for start in range(0, 120, 6)]
    assert {differences(first, other) for first, *others in rows for other in others} == {1}
    assert all(fit(scene, world) == scene for scene in scenes)
    assert len({first.objects() for first, *_ in rows}) == 20


def test_one_more_picture_changes_no_other(world: World) -> None:
    more = world.model_copy(update={"pictures": world.pictures | {"train": 321, "test": 121}})
    assert scenes_of(more, "train")[:320] == scenes_of(world, "train")
    assert scenes_of(more, "test")[:120] == scenes_of(world, "test")
    assert scenes_of(more, "dev") == scenes_of(world, "dev")


def test_captions_differ_are_true_and_end_in_a_full_stop(world: World) -> None:
    for number, scene in enumerate(scenes_of(world, "test")):
        texts = captions(scene, world, stream(world, "test", number, "captions"))
        assert len(set(texts)) == 4
        colours = {word for group in scene.groups for word in world.colours[group.colour].words}
        others = {word for colour in world.colours.values() for word in colour.words} - colours
        for caption in texts:
            assert caption[0].isupper()
            assert caption.endswith(" .")
            assert caption.split() == caption.split(" ")
            assert colours & set(caption.lower().split())
            # 'green hills', 'grey tiles' and 'pink stripes' are words for backgrounds.
            assert not (others - {"green", "pink"}) & set(caption.lower().split())


@given(seed=seeds)
def test_likeness_is_symmetric_and_one_for_equal_scenes(world: World, seed: int) -> None:
    rng = random.Random(seed)
    one, other = random_scene(world, rng), leave_out(random_scene(world, rng), world, rng)
    assert likeness(one, one, world) == pytest.approx(1)
    assert likeness(one, converse(one, world), world) == pytest.approx(1)
    assert 0 <= likeness(one, other, world) <= 1
    assert likeness(one, other, world) == pytest.approx(likeness(other, one, world))
    assert likeness(one, other, world) == pytest.approx(likeness(converse(one, world), other, world))


@given(seed=seeds)
def test_left_out_parts_follow_and_changed_ones_do_not(world: World, seed: int) -> None:
    rng = random.Random(seed)
    scene = random_scene(world, rng)
    assert follows(scene, scene, world)
    assert follows(scene, leave_out(scene, world, rng), world)
    assert follows(scene, converse(scene, world), world)
    assert follows(scene, Scene(scene.groups[-1:], scene.background, None), world)
    other = next(name for name in world.backgrounds if name != scene.background)
    assert not follows(scene, replace(scene, background=other), world)
    assert not follows(leave_out(replace(scene, layout=None), world, rng), scene, world)


def test_likeness_by_hand(world: World) -> None:
    red = Group("circle", "red", "large", 1)
    blue = Group("square", "blue", "small", 2)
    above = Scene((red, blue), "meadow", "above")
    assert likeness(above, Scene((blue, red), "meadow", "below"), world) == pytest.approx(1)
    assert likeness(above, Scene((blue, red), "meadow", "above"), world) == pytest.approx(1 - 0.12)
    assert likeness(above, replace(above, background="sea"), world) == pytest.approx(1 - 0.28)
    assert likeness(above, Scene((red,), "meadow", "top"), world) == pytest.approx(0.28 + 0.60 / 2)
    green = replace(red, colour="green")
    assert likeness(above, replace(above, groups=(green, blue)), world) == pytest.approx(1 - 0.60 * 0.45 / 2)


def test_all_judgments_occur_and_denials_contradict(world: World) -> None:
    pairs = [sick_pair(world, "train", number) for number in range(300)]
    assert {pair.judgment for pair in pairs} == {"ENTAILMENT", "CONTRADICTION", "NEUTRAL"}
    assert all(pair.judgment == "CONTRADICTION" for pair in pairs if "there is no" in pair.second.lower())


def test_same_description_gives_the_same_bytes(tiny: World, tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        corpus = make_sample(tiny, tmp_path / name)
        made.append((corpus, {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}))
    assert made[0] == made[1]
    corpus, files = made[0]
    assert {image.path for image in corpus.images} == set(files)
    assert len(corpus.captions) == 4 * len(files) == 40
    assert [image.image_id for image in corpus.images] == sorted(files)
    assert corpus.drawn == sorted(set(corpus.drawn))


def test_attributes_of_a_picture_are_in_its_captions(world: World, tmp_path: Path) -> None:
    """Each caption says each colour and shape, in a synonym or the plural; most say the background."""
    few = world.model_copy(update={"pictures": world.pictures | {"train": 4, "dev": 1, "test": 6}})
    corpus = make_sample(few, tmp_path)
    said = [colour.words for colour in world.colours.values()]
    said += [shape.one + shape.many for shape in world.shapes.values()]
    said += [ground.words for ground in world.backgrounds.values()]
    alike = {words[0]: words for words in said}
    for image in corpus.images:
        own = [words for image_id, words in corpus.drawn if image_id == image.image_id]
        texts = [caption.text.lower() for caption in corpus.captions if caption.image_id == image.image_id]
        for words in own:
            assert any(other in text for text in texts for other in alike[words]), (words, texts)
        grounds = [ground.words[0] for ground in world.backgrounds.values()]
        assert sum(words in grounds for words in own) == 1
        assert 3 <= len(own) <= 5


@settings(max_examples=12, deadline=None)
@given(seed=seeds)
def test_picture_shows_the_colours_of_its_scene(world: World, seed: int) -> None:
    rng = random.Random(seed)
    scene = random_scene(world, rng)
    picture = np.asarray(draw_scene(scene, (320, 240), world, rng)).astype(int)
    assert picture.shape == (240, 320, 3)
    for group in scene.groups:
        paint = world.colours[group.colour].paint
        wanted = np.array([int(paint[place : place + 2], 16) for place in (1, 3, 5)])
        near = np.abs(picture - wanted).max(axis=2) < 60
        assert near.mean() > 0.004


def test_all_mistakes_of_a_description_are_reported(repository: Path, tmp_path: Path) -> None:
    text = (repository / "data/raw/sample/scenes.yaml").read_text()
    wrong = text.replace("\nseed:", "\nsed:").replace('paint: "#e3202b"', "paint: red")
    (tmp_path / "scenes.yaml").write_text(wrong)
    with pytest.raises(CorpusError) as error:
        load_world(tmp_path)
    for key in ("seed: the key is missing", "sed: no such key", "colours.red.paint"):
        assert key in str(error.value)
    (tmp_path / "scenes.yaml").write_text(text.replace("avoid: [green]", "avoid: [mauve]"))
    with pytest.raises(CorpusError, match="names the unknown colour 'mauve'"):
        load_world(tmp_path)


def test_more_pictures_than_scenes_are_refused(world: World) -> None:
    few = dict(list(world.shapes.items())[:2]), dict(list(world.backgrounds.items())[:2])
    small = world.model_copy(update={"shapes": few[0], "backgrounds": few[1], "two_groups": 0.0})
    with pytest.raises(CorpusError, match="there are not 320 different scenes for the split train"):
        scenes_of(small, "train")
