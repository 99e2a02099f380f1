"""The sample's ordered text: little stories about the objects of ``scenes.yaml``, with a known entropy.

Each sentence of a story is of one kind, at one place. Kind and place follow a Markov chain; shape, number and
background stay and are in every sentence; size and colour stay, and are in the sentences of the kind ``seen`` only, of
which no two are neighbours. The neighbours of a sentence are therefore independent of its colour: text cannot tell
colours apart.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sightword.corpus.sample.scene import World, stream

LENGTHS = range(8, 13)
"""Sentences in a story; each number is as likely as the others."""
KINDS = {
    "seen": {"stays": 0.5, "moves": 0.5},
    "stays": {"seen": 0.25, "stays": 0.25, "moves": 0.5},
    "moves": {"seen": 0.25, "stays": 0.5, "moves": 0.25},
}
"""Probabilities of the next sentence's kind. A story begins with ``seen``, at any place."""
ONWARD = 0.75
"""The probability that an object moves to the next place of the world's list, not to the one before."""


@dataclass(frozen=True)
class Entropies:
    """Entropies of the neighbours of a sentence, in nats a sentence, averaged over the middles of all triples.

    They are the least mean losses of a decoder, summed over the words of a sentence with its full stop.
    """

    next: float
    """Of the next sentence, given the sentence."""
    previous: float
    """Of the previous sentence, given the sentence."""
    next_alone: float
    """Of the next sentence, if nothing is given."""
    previous_alone: float
    """Of the previous sentence, if nothing is given."""


def stories(world: World, count: int, seed: int) -> Iterator[list[str]]:
    """Yield stories, each as the list of its sentences, which end in `` .``."""
    for number in range(count):
        yield _story(world, stream(world, "story", seed, number))


def entropies(world: World) -> Entropies:
    """Return the entropies of the stories, if different things of the world have different words."""
    places = len(world.places)
    words = _entropies_of_words(world)
    hidden = math.log(len(world.shapes) * len(world.backgrounds) * len(world.counts))
    step = _chain(places)
    law = np.zeros(len(step))
    law[list(KINDS).index("seen") * places :][:places] = 1 / places
    laws = list(itertools.accumulate(range(max(LENGTHS) - 1), lambda now, _: now @ step, initial=law))
    forward, backward = np.zeros_like(step), np.zeros_like(step)
    for length in LENGTHS:
        for middle in range(1, length - 1):
            forward += laws[middle][:, None] * step
            backward += (laws[middle - 1][:, None] * step).T
    found = []
    for joint in (forward / forward.sum(), backward / backward.sum()):
        own, neighbour = joint.sum(1), joint.sum(0)
        said = float(neighbour @ words)
        found.append((_entropy(joint) - _entropy(own) + said, _entropy(neighbour) + hidden + said))
    (following, following_alone), (previous, previous_alone) = found
    return Entropies(following, previous, following_alone, previous_alone)


def _chain(places: int) -> NDArray[np.float64]:
    """Return the (states, states) probabilities of the next state; states are kinds by places."""
    step = np.zeros((len(KINDS), places, len(KINDS), places))
    names = list(KINDS)
    for kind, following in KINDS.items():
        for place, (name, chance) in itertools.product(range(places), following.items()):
            row = step[names.index(kind), place, names.index(name)]
            if name == "moves":
                row[(place + 1) % places] += chance * ONWARD
                row[(place - 1) % places] += chance * (1 - ONWARD)
            else:
                row[place] += chance
    return step.reshape(len(KINDS) * places, -1)


def _entropies_of_words(world: World) -> NDArray[np.float64]:
    """Return the entropy of the choice of words in a sentence of each state, (states,)."""
    groups = [shape.one if count == 1 else shape.many for count in world.counts for shape in world.shapes.values()]
    common = _mean(groups) + _mean(list(_backgrounds(world).values()))
    chosen = math.log(len(world.size_words) * len(world.colours))
    chosen += _mean([size.words for size in world.size_words.values()])
    chosen += _mean([colour.words for colour in world.colours.values()])
    by_kind = {kind: _mean([_numerals(world, count) for count in world.counts]) for kind in KINDS}
    by_kind["seen"] = _mean(list(world.counts.values())) + chosen
    own = [_mean([place.words]) for place in world.places.values()]
    return np.array([by_kind[kind] + at + common for kind in KINDS for at in own])


def _mean(choices: Sequence[Sequence[str]]) -> float:
    """Return the mean entropy of uniform choices from lists of words."""
    laws = [np.array(list(Counter(words).values())) / len(words) for words in choices]
    return sum(map(_entropy, laws)) / len(laws)


def _entropy(law: NDArray[np.float64]) -> float:
    """Return the entropy of a law in nats."""
    some = law[law > 0]
    return float(-(some * np.log(some)).sum())


def _story(world: World, rng: random.Random) -> list[str]:
    shape = world.shapes[rng.choice(list(world.shapes))]
    colour = world.colours[rng.choice(list(world.colours))]
    size = world.size_words[rng.choice(list(world.size_words))]
    background = rng.choice(list(_backgrounds(world).values()))
    count = rng.choice(list(world.counts))
    places = list(world.places.values())
    place, kind, found = rng.randrange(len(places)), "seen", []
    for _ in range(rng.choice(LENGTHS)):
        thing = rng.choice(shape.one if count == 1 else shape.many)
        be = "is" if count == 1 else "are"
        if kind == "seen":
            words = [rng.choice(size.words), rng.choice(colour.words), thing]
            number = rng.choice(world.counts[count])
            if number == "a" and words[0][0] in "aeiou":
                number = "an"
            start = ["There", be, number, *words]
        else:
            start = ["The", rng.choice(_numerals(world, count)), thing, be, "still" if kind == "stays" else "now"]
        end = [rng.choice(places[place].words), rng.choice(background), "."]
        found.append(" ".join(word for word in [*start, *end] if word))
        kind = rng.choices(list(KINDS[kind]), list(KINDS[kind].values()))[0]
        if kind == "moves":
            place = (place + (1 if rng.random() < ONWARD else -1)) % len(places)
    return found


def _numerals(world: World, count: int) -> list[str]:
    """Return the words of a number behind `the`: none for one object."""
    return [""] if count == 1 else [words.removeprefix("a ") for words in world.counts[count]]


def _backgrounds(world: World) -> dict[str, list[str]]:
    """Return the words of each background that name no colour, such as `green hills`; all if each of them does."""
    colours = {word for colour in world.colours.values() for word in colour.words}
    found = {}
    for name, background in world.backgrounds.items():
        plain = [words for words in background.words if colours.isdisjoint(words.split())]
        found[name] = plain or background.words
    return found
