"""Generates random scenes: one or two groups of equal objects on a background."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, replace

from sightword.corpus.sample.world import World
from sightword.errors import CorpusError

_TRIES = 2000


@dataclass(frozen=True)
class Group:
    """Equal objects; a description may leave out the size (None)."""

    shape: str
    colour: str
    size: str | None
    count: int


@dataclass(frozen=True)
class Scene:
    """The content of a picture, or of a sentence, which may leave parts out (None).

    A single group has a place; two groups have a relation, from the first to the second.
    """

    groups: tuple[Group, ...]
    background: str | None
    layout: str | None

    def objects(self) -> str:
        """Return the objects and their background as one text, which no two splits share."""
        things = sorted(f"{group.colour} {group.shape}" for group in self.groups)
        return f"{self.background}: {', '.join(things)}"


def stream(world: World, *name: object) -> random.Random:
    """Return random numbers for one purpose, so that an added picture or pair changes no other."""
    return random.Random("/".join(map(str, (world.seed, *name))))  # noqa: S311 - nothing secret


def random_scene(world: World, rng: random.Random) -> Scene:
    """Return a scene in which every object stands out from the background and from the other group."""
    background = rng.choice(list(world.backgrounds))
    visible = [name for name in world.colours if name not in world.backgrounds[background].avoid]
    first = _random_group(world, rng, visible)
    if rng.random() >= world.two_groups:
        return Scene((first,), background, rng.choice(list(world.places)))
    relation = rng.choice(list(world.relations))
    second = _random_group(world, rng, [name for name in visible if name != first.colour])
    return fit(Scene((first, second), background, relation), world)


def _random_group(world: World, rng: random.Random, colours: list[str]) -> Group:
    shape = rng.choice(list(world.shapes))
    # One object more often than several: image networks see few large objects best.
    count = rng.choice([*world.counts, min(world.counts)])
    return Group(shape, rng.choice(colours), rng.choice(list(world.size_words)), count)


def fit(scene: Scene, world: World) -> Scene:
    """Make a scene possible: an inside or around relation needs one small object in one large object."""
    if scene.layout not in ("inside", "around") or len(scene.groups) != 2:
        return scene
    by_scale = sorted(world.size_words, key=lambda name: world.size_words[name].scale)
    inner, outer = (0, 1) if scene.layout == "inside" else (1, 0)
    groups = list(scene.groups)
    one = min(world.counts)
    groups[inner] = replace(groups[inner], size=by_scale[0], count=one)
    groups[outer] = replace(groups[outer], size=by_scale[-1], count=one)
    return replace(scene, groups=tuple(groups))


def split_of(scene: Scene) -> str:
    """Return the split of a scene: 1/2 of all combinations of objects and background are for training, 1/4 for each
    other split, so that splits are drawn independently yet share no combination.
    """
    return ("train", "train", "dev", "test")[hashlib.sha256(scene.objects().encode()).digest()[0] % 4]


def scenes_of(world: World, split: str) -> list[Scene]:
    """Return the scenes of one split, each with different objects; CorpusError if the world has too few of them."""
    count = getattr(world.pictures, split)
    scenes: dict[str, Scene] = {}
    for number in range(count):
        rng = stream(world, split, number, "scene")
        tries = (random_scene(world, rng) for _ in range(_TRIES))
        scene = next((one for one in tries if split_of(one) == split and one.objects() not in scenes), None)
        if scene is None:
            what = f"there are not {count} different scenes for the split {split} (only {number} were found)"
            todo = "Describe more shapes, colours or backgrounds in scenes.yaml, or ask for fewer pictures."
            raise CorpusError(what, todo=todo)
        scenes[scene.objects()] = scene
    return list(scenes.values())
