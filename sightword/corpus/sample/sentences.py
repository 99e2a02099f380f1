"""Generates sentence pairs with gold scores from the likeness of their scenes, in SentEval's file layout."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from pathlib import Path

from sightword.corpus.sample.grammar import denial, leave_out, sentence
from sightword.corpus.sample.scene import Group, Scene, converse, fit, random_scene, stream
from sightword.corpus.sample.world import World
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
        pairs = [sick_pair(world, split, index) for index in range(getattr(world.pairs.sick, split))]
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
        weights.colour * (left.colour == right.colour)
        + weights.shape * (left.shape == right.shape)
        + weights.count * (left.count == right.count)
        + weights.size * _same(left.size, right.size, world)
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
