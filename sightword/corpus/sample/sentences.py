"""Sentences of scenes: captions, and pairs with gold scores from the likeness of their scenes, in SentEval's files."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sightword.corpus.sample.scene import PARTS, Group, Scene, World, converse, fit, random_scene, stream
from sightword.corpus.sample.scene import template_parts as parts_of
from sightword.io.files import write_text, write_tsv

STS_FOLDER = "downstream/STS/STSSample-en-test"
SICK_FOLDER = "downstream/SICK"
SICK_FILES = {"train": "SICK_train.txt", "trial": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
SICK_COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")


@dataclass(frozen=True)
class Pair:
    """Two sentences, the similarity of their scenes (0 to 1), and the entailment judgment."""

    first: str
    second: str
    likeness: float
    judgment: str
    """``ENTAILMENT``, ``CONTRADICTION`` or ``NEUTRAL``, as in SICK."""


def write_senteval(folder: Path, world: World) -> None:
    """Write ``downstream/STS/STSSample-en-test`` and ``downstream/SICK`` below ``folder``."""
    for subtask in ("scenes", "details"):
        pairs = [sts_pair(world, subtask, number) for number in range(getattr(world.pairs, subtask))]
        inputs, gold = (folder / STS_FOLDER / f"STS.{kind}.{subtask}.txt" for kind in ("input", "gs"))
        write_text(inputs, "".join(f"{pair.first} .\t{pair.second} .\n" for pair in pairs))
        write_text(gold, "".join(f"{5 * pair.likeness:.2f}\n" for pair in pairs))
    numbers = itertools.count(1)
    for split, file in SICK_FILES.items():
        pairs = [sick_pair(world, split, index) for index in range(world.pairs.sick[split])]  # type: ignore[index]  # one of SPLITS
        rows = [(next(numbers), one.first, one.second, f"{1 + 4 * one.likeness:.1f}", one.judgment) for one in pairs]
        write_tsv(folder / SICK_FOLDER / file, SICK_COLUMNS, rows)


def sts_pair(world: World, subtask: str, number: int) -> Pair:
    """Return sentences of a scene and of a changed copy; for ``details`` its shapes and background stay."""
    rng = stream(world, "sts", subtask, number)
    left = random_scene(world, rng)
    right = _changed(left, world, rng, details_only=subtask == "details")
    return _judged(left, right, world, rng)


def sick_pair(world: World, split: str, number: int) -> Pair:
    """Return a SICK-like pair: an entailed, a denied, or a changed claim."""
    rng = stream(world, "sick", split, number)
    left = random_scene(world, rng)
    kind = rng.choice(("follows", "denied", "changed", "changed"))
    if kind == "denied" and left.background is not None:
        thing = rng.choice(left.groups)
        claim = Scene((thing,), left.background, None)
        denied = denial(thing, left.background, world, rng)
        alike = world.likeness.denied * likeness(left, claim, world)
        return Pair(sentence(left, world, rng), denied, alike, "CONTRADICTION")
    if kind == "follows":
        return _judged(left, leave_out(left, world, rng), world, rng)
    return _judged(left, _changed(left, world, rng, details_only=False), world, rng)


def _judged(left: Scene, right: Scene, world: World, rng: random.Random) -> Pair:
    if follows(left, right, world):
        judgment = "ENTAILMENT"
    elif follows(left, replace(right, layout=None), world) and right.layout is not None:
        judgment = "CONTRADICTION"  # the same objects cannot have two layouts
    else:
        judgment = "NEUTRAL"
    return Pair(sentence(left, world, rng), sentence(right, world, rng), likeness(left, right, world), judgment)


def _changed(scene: Scene, world: World, rng: random.Random, *, details_only: bool) -> Scene:
    """Replace each part of a scene with one random probability for each pair, so that all degrees of change occur."""
    chance = rng.random()
    other = random_scene(world, rng)
    background = scene.background
    if not details_only:
        if rng.random() < chance**2:
            return other
        if rng.random() < chance:
            background = other.background
    avoid = world.backgrounds[background].avoid if background is not None else []
    colours = [name for name in world.colours if name not in avoid]
    groups: list[Group] = []
    for group in scene.groups:
        left = [name for name in colours if name not in {earlier.colour for earlier in groups}]
        keep = group.colour in left and rng.random() >= chance
        shape = group.shape if details_only or rng.random() >= chance else rng.choice(list(world.shapes))
        size = group.size if rng.random() >= chance else rng.choice(list(world.size_words))
        count = group.count if rng.random() >= chance else rng.choice(list(world.counts))
        groups.append(Group(shape, group.colour if keep else rng.choice(left), size, count))
    accepted = list(world.places) if len(groups) == 1 else list(world.relations)
    layout = scene.layout if rng.random() >= chance else rng.choice(accepted)
    return fit(Scene(tuple(groups), background, layout), world)


def likeness(left: Scene, right: Scene, world: World) -> float:
    """Return the symmetric similarity of two descriptions, from 0 for nothing in common to 1 for the same.

    The groups are matched in the order with the highest similarity; an unmatched group counts 0.
    """
    weights = world.likeness
    most = max(len(left.groups), len(right.groups))
    best = 0.0
    for mine in (left, converse(left, world)):
        for yours in (right, converse(right, world)):
            pairs = zip(mine.groups, yours.groups, strict=False)
            objects = sum(_group_likeness(one, other, world) for one, other in pairs) / most
            # A place and a relation have nothing in common.
            layout = _same(mine.layout, yours.layout, world) if len(mine.groups) == len(yours.groups) else 0.0
            best = max(best, weights.objects * objects + weights.layout * layout)
    return best + weights.background * _same(left.background, right.background, world)


def _same(left: object, right: object, world: World) -> float:
    return world.likeness.unsaid if (left is None) != (right is None) else float(left == right)


def _group_likeness(left: Group, right: Group, world: World) -> float:
    weights = world.likeness.object
    return (
        weights["colour"] * (left.colour == right.colour)
        + weights["shape"] * (left.shape == right.shape)
        + weights["count"] * (left.count == right.count)
        + weights["size"] * _same(left.size, right.size, world)
    )


def follows(premise: Scene, claim: Scene, world: World) -> bool:
    """Return whether ``premise`` entails everything that ``claim`` states."""
    if claim.background not in (None, premise.background):
        return False
    for groups in itertools.permutations(range(len(premise.groups)), len(claim.groups)):
        given = [premise.groups[mine] for mine in groups]
        if all(replace(one, size=one.size or own.size) == own for one, own in zip(claim.groups, given, strict=True)):
            described = premise if groups == tuple(sorted(groups)) else converse(premise, world)
            if claim.layout is None or (len(groups) == len(premise.groups) and described.layout == claim.layout):
                return True
    return False


def leave_out(scene: Scene, world: World, rng: random.Random) -> Scene:
    """Leave out some parts with the world's probabilities, but never everything except the objects."""
    chance = world.leave_out
    groups = tuple(replace(group, size=None) if rng.random() < chance["size"] else group for group in scene.groups)
    layout = None if rng.random() < chance["layout"] else scene.layout
    background = None if layout is not None and rng.random() < chance["background"] else scene.background
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
    fitting = [template for template in world.templates if parts_of(template, PARTS | {"is"}) == parts]
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
