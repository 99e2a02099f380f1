"""The similarity of two scenes, and entailment between them."""

from __future__ import annotations

from itertools import permutations

from sightword.corpus.sample.grammar import converse
from sightword.corpus.sample.scene import Group, Scene
from sightword.corpus.sample.world import World


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
    if left is None and right is None:
        return 1.0
    if left is None or right is None:
        return world.likeness.unsaid
    return float(left == right)


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
    for groups in permutations(range(len(premise.groups)), len(claim.groups)):
        if all(_covers(premise.groups[mine], group) for mine, group in zip(groups, claim.groups, strict=True)):
            if claim.layout is None:
                return True
            if len(groups) == len(premise.groups):
                described = premise if groups == tuple(sorted(groups)) else converse(premise, world)
                if described.layout == claim.layout:
                    return True
    return False


def _covers(given: Group, claimed: Group) -> bool:
    same = (given.shape, given.colour, given.count) == (claimed.shape, claimed.colour, claimed.count)
    return same and claimed.size in (None, given.size)
