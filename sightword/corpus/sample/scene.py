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


def converse(scene: Scene, world: World) -> Scene:
    """Return the same scene described from its second group: 'A above B' becomes 'B below A'."""
    if len(scene.groups) != 2:
        return scene
    layout = None if scene.layout is None else world.relations[scene.layout].converse  # type: ignore[index]  # two groups: a key of relations
    return Scene(scene.groups[::-1], scene.background, layout)


def split_of(scene: Scene) -> str:
    """Return the split of a scene: 1/2 of all combinations of objects and background are for training, 1/4 for each
    other split, so that splits are drawn independently yet share no combination.
    """
    return ("train", "train", "dev", "test")[hashlib.sha256(scene.objects().encode()).digest()[0] % 4]


def scenes_of(world: World, split: str) -> list[Scene]:
    """Return the scenes of one split, all different, in rows of as many as ``world.alike`` says.

    The first scene of a row is random, and its objects on its background are new. Each other scene of the row differs
    from the first one in one property.

    Raises:
        CorpusError: the world has too few such scenes.
    """
    count, alike = getattr(world.pictures, split), getattr(world.alike, split)
    scenes: list[Scene] = []
    known: set[Scene] = set()
    for number in range(count):
        rng = stream(world, split, number, "scene")
        if number % alike:
            taken = set[str]()
            tries = (altered(scenes[number - number % alike], world, rng) for _ in range(_TRIES))
        else:
            taken = {scene.objects() for scene in scenes}
            tries = (random_scene(world, rng) for _ in range(_TRIES))
        new = (one for one in tries if one.objects() not in taken and known.isdisjoint((one, converse(one, world))))
        scene = next((one for one in new if split_of(one) == split), None)
        if scene is None:
            what = f"there are not {count} different scenes for the split {split} (only {number} were found)"
            todo = "Describe more shapes, colours or backgrounds in scenes.yaml, or ask for fewer pictures."
            raise CorpusError(what, todo=todo)
        scenes.append(scene)
        known.add(scene)
    return scenes


def altered(scene: Scene, world: World, rng: random.Random) -> Scene:
    """Return a possible scene with one property drawn anew: the background, the layout, or a group's shape, colour,
    size or count; the same scene if the old value is drawn.
    """
    place = rng.randrange(len(scene.groups))
    before, old, after = scene.groups[:place], scene.groups[place], scene.groups[place + 1 :]
    lost = {*world.backgrounds[str(scene.background)].avoid, *(group.colour for group in (*before, *after))}
    colours = {group.colour for group in scene.groups}
    grounds = [name for name, ground in world.backgrounds.items() if not colours & set(ground.avoid)]
    others = (
        replace(old, shape=rng.choice(list(world.shapes))),
        replace(old, colour=rng.choice([name for name in world.colours if name not in lost])),
        replace(old, size=rng.choice(list(world.size_words))),
        replace(old, count=rng.choice(list(world.counts))),
    )
    scenes = [
        replace(scene, background=rng.choice(grounds)),
        replace(scene, layout=rng.choice(list(world.places if len(scene.groups) == 1 else world.relations))),
        *(replace(scene, groups=(*before, other, *after)) for other in others),
    ]
    return rng.choice([one for one in scenes if fit(one, world) == one])
