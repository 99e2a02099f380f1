"""Turns a scene, or parts of it, into a sentence."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sightword.corpus.sample.scene import Group, Scene, converse
from sightword.corpus.sample.world import PARTS, World, template_parts


def leave_out(scene: Scene, world: World, rng: random.Random) -> Scene:
    """Leave out some parts with the world's probabilities, but never everything except the objects."""
    chance = world.leave_out
    groups = tuple(replace(group, size=None) if rng.random() < chance.size else group for group in scene.groups)
    layout = None if rng.random() < chance.layout else scene.layout
    background = None if layout is not None and rng.random() < chance.background else scene.background
    return Scene(groups, background, layout)


def sentence(scene: Scene, world: World, rng: random.Random) -> str:
    """Describe exactly the parts of the scene, by a random template of the grammar.

    The sentence starts with a capital letter and has no full stop.
    """
    if rng.random() < 0.5:
        scene = converse(scene, world)
    first, *others = scene.groups
    words = {"first": _say(first, world, rng), "is": "is" if first.count == 1 else "are"}
    if others:
        words["second"] = _say(others[0], world, rng)
    if scene.layout is not None:
        layouts: Mapping[Any, Any] = world.relations if others else world.places
        words["relation" if others else "place"] = rng.choice(layouts[scene.layout].words)
    if scene.background is not None:
        words["background"] = rng.choice(world.backgrounds[scene.background].words)
    parts = words.keys() - {"is"}
    fitting = [template for template in world.templates if template_parts(template, PARTS | {"is"}) == parts]
    return _capital(rng.choice(fitting).format(**words))


def denial(group: Group, background: str, world: World, rng: random.Random) -> str:
    """Return a sentence that denies such an object, whatever its count, on this background."""
    words = rng.choice(world.backgrounds[background].words)
    return _capital(rng.choice(world.negation).format(thing=_thing(group, world, rng, many=False), background=words))


def captions(scene: Scene, world: World, rng: random.Random) -> list[str]:
    """Return ``world.captions`` different captions of one scene, each ending in `` .``.

    A world whose words allow fewer captions gets repeated ones.
    """
    found: list[str] = []
    tries = 0
    while len(found) < world.captions:
        caption = sentence(leave_out(scene, world, rng), world, rng) + " ."
        tries += 1
        if caption not in found or tries > 50 * world.captions:
            found.append(caption)
    return found


def attributes(scene: Scene, world: World) -> list[str]:
    """Return the plain words of a scene's colours, shapes and background, such as ``red``, ``star``, ``in the snow``.

    Sizes, counts and the layout are left out, since captions leave them out.
    """
    found = [world.colours[group.colour].words[0] for group in scene.groups]
    found += [world.shapes[group.shape].one[0] for group in scene.groups]
    found += [] if scene.background is None else [world.backgrounds[scene.background].words[0]]
    return list(dict.fromkeys(found))


def _say(group: Group, world: World, rng: random.Random) -> str:
    count = rng.choice(world.counts[group.count])
    thing = _thing(group, world, rng, many=group.count > 1)
    if count == "a" and thing[0] in "aeiou":
        count = "an"
    return f"{count} {thing}"


def _thing(group: Group, world: World, rng: random.Random, *, many: bool) -> str:
    shape = world.shapes[group.shape]
    words = [rng.choice(world.colours[group.colour].words), rng.choice(shape.many if many else shape.one)]
    if group.size is not None:
        words.insert(0, rng.choice(world.size_words[group.size].words))
    return " ".join(words)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
