"""Generates random scenes: one or two groups of equal objects on a background."""

from __future__ import annotations

import hashlib
import itertools
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


def converse(scene: Scene, world: World) -> Scene:
    """Return the same scene described from its second group: 'A above B' becomes 'B below A'."""
    if len(scene.groups) != 2:
        return scene
    layout = None if scene.layout is None else world.relations[scene.layout].converse  # type: ignore[index]
    return Scene(scene.groups[::-1], scene.background, layout)


def split_of(scene: Scene) -> str:
    """Return the split of a scene: 1/2 of all combinations of objects and background are for training, 1/4 for each
    other split, so that splits are drawn independently yet share no combination.
    """
    return ("train", "train", "dev", "test")[hashlib.sha256(scene.objects().encode()).digest()[0] % 4]


def scenes_of(world: World, split: str) -> list[Scene]:
    """Return the scenes of one split, all different, in rows of as many as ``world.alike`` says.

    The first scene of a row is random, with other objects than the other first scenes; each other scene of the row
    differs from the first one in one property.

    Raises:
        CorpusError: the world has too few such scenes.
    """
    count, alike = getattr(world.pictures, split), getattr(world.alike, split)
    scenes: list[Scene] = []
    for number in range(count):
        rng = stream(world, split, number, "scene")
        first = scenes[number - number % alike] if number % alike else None
        taken = {scene.objects() for scene in scenes[::alike]}
        for _ in range(_TRIES):
            scene = random_scene(world, rng) if first is None else altered(first, world, rng)
            new = scene.objects() not in taken if first is None else True
            if new and split_of(scene) == split and scene not in scenes and converse(scene, world) not in scenes:
                scenes.append(scene)
                break
        else:
            what = f"there are not {count} different scenes for the split {split} (only {number} were found)"
            todo = "Describe more shapes, colours or backgrounds in scenes.yaml, or ask for fewer pictures."
            raise CorpusError(what, todo=todo)
    return scenes


def altered(scene: Scene, world: World, rng: random.Random) -> Scene:
    """Return a possible scene with another value of one property: the background, the layout, or a group's shape,
    colour, size or count.
    """
    several = len(scene.groups) == 2
    visible = [one for one in world.colours if one not in world.backgrounds[scene.background or ""].avoid]
    values = {"shape": world.shapes, "colour": visible, "size": world.size_words, "count": world.counts}
    place, kind = rng.choice([(0, "background"), (0, "layout"), *itertools.product(range(len(scene.groups)), values)])
    if kind == "background":
        wanted = {group.colour for group in scene.groups}
        grounds = [name for name, one in world.backgrounds.items() if not wanted & set(one.avoid)]
        return replace(scene, background=rng.choice(grounds))
    if kind == "layout":
        return fit(replace(scene, layout=rng.choice(list(world.relations if several else world.places))), world)
    taken = {group.colour for group in scene.groups} if kind == "colour" else set()
    groups = list(scene.groups)
    groups[place] = replace(groups[place], **{kind: rng.choice([one for one in values[kind] if one not in taken])})
    return fit(replace(scene, groups=tuple(groups)), world)
