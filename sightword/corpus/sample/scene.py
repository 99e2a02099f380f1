"""The sample's world, as ``scenes.yaml`` describes it, and random scenes: one or two groups of equal objects on a
background.
"""

from __future__ import annotations

import functools
import hashlib
import random
import string
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sightword.errors import CorpusError, FileFormatError
from sightword.io import yaml_reader
from sightword.io.files import Pathish, read_text
from sightword.settings import explain

FILE = "scenes.yaml"
PARTS = frozenset({"first", "second", "relation", "place", "background"})
"""The parts of a scene that a template may mention, besides ``{is}``."""
_SINGLE = [frozenset(["first", *more]) for more in ([], ["background"], ["place"], ["place", "background"])]
_DOUBLE = [
    frozenset(["first", "second", *more]) for more in ([], ["background"], ["relation"], ["relation", "background"])
]
"""Every set of parts that the description of one group and of two groups can have."""
_DENIAL = frozenset({"thing", "background"})
_TRIES = 2000

Words = Annotated[list[Annotated[str, Field(pattern=r"^\S+( \S+)*$")]], Field(min_length=1)]
Paint = Annotated[str, Field(pattern=r"^#[0-9a-f]{6}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Number = Annotated[int, Field(ge=1, le=1_000_000)]
Pair = Field(min_length=2, max_length=2)
_OfSplits = Annotated[dict[Literal["train", "dev", "test"], Number], Field(min_length=3)]
Side = Annotated[int, Field(ge=64, le=2048)]
Outline = Literal["circle", "square", "triangle", "star", "heart", "ring", "cross", "diamond", "flower"]
Texture = Literal["hills", "waves", "night", "dunes", "bricks", "snow", "sunset", "checks", "stripes", "forest"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Likeness(_Part):  # the weights of a scene's parts; the first three add up to 1, and so do those of an object
    objects: Share
    background: Share
    layout: Share
    object: Annotated[dict[Literal["colour", "shape", "size", "count"], Share], Field(min_length=4)]
    unsaid: Share
    denied: Share


class _Pairs(_Part):  # the number of sentence pairs; of SICK-like ones, in each file
    scenes: Number
    details: Number
    sick: Annotated[dict[Literal["train", "trial", "test"], Number], Field(min_length=3)]


class _Colour(_Part):
    paint: Paint
    words: Words


class _Shape(_Part):  # an outline with its singular and plural names
    outline: Outline
    one: Words
    many: Words


class _Size(_Part):  # a diameter, as a share of the picture's smaller side
    scale: Annotated[float, Field(gt=0, le=1)]
    words: Words


class _Background(_Part):  # the area behind the objects, and the colours to avoid on it
    texture: Texture
    paint: Annotated[list[Paint], Field(min_length=3, max_length=3)]
    avoid: list[str]
    words: Words


class _Place(_Part):  # the position of a single group, as shares of width and height
    at: Annotated[list[Share], Pair]
    words: Words


class _Relation(_Part):  # the position of the first of two groups relative to the second
    converse: str
    words: Words


class World(_Part):
    """All of ``scenes.yaml``."""

    seed: int
    pictures: _OfSplits
    alike: _OfSplits
    captions: Annotated[int, Field(ge=1, le=20)]
    two_groups: Share
    jpeg: Share
    sizes: Annotated[list[Annotated[list[Side], Pair]], Field(min_length=1)]
    colours: Annotated[dict[str, _Colour], Field(min_length=2)]
    shapes: Annotated[dict[str, _Shape], Field(min_length=2)]
    size_words: Annotated[dict[str, _Size], Field(min_length=1)]
    counts: Annotated[dict[Annotated[int, Field(ge=1, le=3)], Words], Field(min_length=1)]
    backgrounds: Annotated[dict[str, _Background], Field(min_length=2)]
    places: Annotated[dict[str, _Place], Field(min_length=1)]
    relations: dict[Literal["above", "below", "left", "right", "inside", "around"], _Relation]
    templates: Words
    negation: Words
    leave_out: Annotated[dict[Literal["size", "layout", "background"], Share], Field(min_length=3)]
    likeness: _Likeness
    pairs: _Pairs

    @model_validator(mode="after")
    def _fits_together(self) -> World:
        for name, background in self.backgrounds.items():
            if unknown := [colour for colour in background.avoid if colour not in self.colours]:
                raise ValueError(f"backgrounds.{name}.avoid names the unknown colour {unknown[0]!r}")
            if len(set(background.avoid)) > len(self.colours) - 2:
                raise ValueError(f"backgrounds.{name}.avoid leaves fewer than two colours")
        converses = {str(key): relation.converse for key, relation in self.relations.items()}
        if wrong := [key for key, other in converses.items() if converses.get(other) != key]:
            raise ValueError(f"relations.{wrong[0]}.converse = {converses[wrong[0]]!r} is not its converse")
        if self.two_groups > 0 and not self.relations:
            raise ValueError("two_groups needs relations")
        kinds = {template_parts(template, PARTS | {"is"}) for template in self.templates}
        for needed in _SINGLE if self.two_groups == 0 else _SINGLE + _DOUBLE:
            if needed not in kinds:
                raise ValueError(f"templates: none has exactly the parts {', '.join(sorted(needed))}")
        if wrong := [template for template in self.negation if template_parts(template, _DENIAL) != _DENIAL]:
            raise ValueError(f"negation: {wrong[0]!r} needs {{thing}} and {{background}}")
        return self


@functools.cache
def template_parts(template: str, accepted: frozenset[str]) -> frozenset[str]:
    """Return the fields of a template without ``{is}``, which depends on the others; ValueError for unknown fields."""
    fields = frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name is not None)
    if not fields <= accepted:
        unknown = ", ".join(sorted(fields - accepted))
        raise ValueError(f"the template {template!r} names {unknown}; accepted are {', '.join(sorted(accepted))}")
    return fields - {"is"}


def load_world(path: Pathish) -> World:
    """Read and check the description of the sample, a file or a folder with ``scenes.yaml``.

    CorpusError if the file is not YAML, or entries are missing, unknown or wrong (the message names all of them);
    FileFormatError if it is missing.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    text = read_text(file, todo="The sample's description is data/raw/sample/scenes.yaml, in git.")
    try:
        value = yaml_reader.parse(text, file)
    except FileFormatError as error:
        raise CorpusError(error.what, where=error.where) from None
    try:
        return World.model_validate(value)
    except ValidationError as error:
        problems = [explain(World, item) for item in error.errors()]
        raise CorpusError("does not describe a sample:\n  " + "\n  ".join(problems), where=file) from None


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
    count, alike = world.pictures[split], world.alike[split]  # type: ignore[index]  # one of SPLITS
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
