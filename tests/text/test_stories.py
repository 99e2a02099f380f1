"""The sample's stories: their entropies against counts, and colours that text cannot tell apart."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from sightword.captions.units import split
from sightword.corpus.sample.scene import load_world, random_scene, stream
from sightword.corpus.sample.sentences import captions
from sightword.text.stories import entropies, stories


@pytest.fixture(scope="module")
def world(repository):
    return load_world(repository / "data/raw/sample")


def only(values, *names):
    return {name: values[name] for name in names}


@pytest.fixture(scope="module")
def small(world):
    """A world of few sentences, with one to three words for a thing."""
    return world.model_copy(
        update={
            "colours": only(world.colours, "red", "blue"),
            "shapes": only(world.shapes, "star", "ring"),
            "size_words": {"small": world.size_words["small"].model_copy(update={"words": ["small", "tiny", "tiny"]})},
            "counts": {1: ["a", "one"], 2: ["two"]},
            "backgrounds": {"sea": world.backgrounds["sea"].model_copy(update={"words": ["at sea"]})},
            "places": only(world.places, "left", "top", "middle"),
        }
    )


def counted(pairs):
    """Return the entropies, by counts, of the second of each pair given the first, and alone (Miller & Madow 1955)."""
    pairs = list(pairs)

    def entropy(values):
        counts = Counter(values).values()
        total = sum(counts)
        return -sum(count / total * math.log(count / total) for count in counts) + (len(counts) - 1) / (2 * total)

    first, second = (entropy(pair[place] for pair in pairs) for place in (0, 1))
    return entropy(pairs) - first, second


def test_the_entropies_are_those_of_the_counted_sentences(small):
    told = list(stories(small, 20_000, seed=1))
    middles = [triple for story in told for triple in zip(story, story[1:], story[2:], strict=False)]
    following = counted((middle, after) for _, middle, after in middles)
    previous = counted((middle, before) for before, middle, _ in middles)
    known = entropies(small)
    assert (known.next, known.next_alone) == pytest.approx(following, abs=0.02)
    assert (known.previous, known.previous_alone) == pytest.approx(previous, abs=0.02)
    assert abs(known.next - known.previous) > 0.05  # so that a test can tell the two decoders apart


def test_neighbours_do_not_depend_on_the_colour(world):
    """In a world whose colours have changed names, the same stories have other colours and nothing else."""
    names = list(world.colours)
    turned = world.model_copy(
        update={
            "colours": {name: world.colours[other] for name, other in zip(names, names[1:] + names[:1], strict=True)}
        }
    )
    words = {word for colour in world.colours.values() for word in colour.words}
    changed = 0
    for own, other in zip(stories(world, 50, 0), stories(turned, 50, 0), strict=True):
        coloured = [bool(words & set(sentence.split())) for sentence in own]
        assert not any(itertools.starmap(lambda one, two: one and two, itertools.pairwise(coloured)))
        for sentence, renamed, has in zip(own, other, coloured, strict=True):
            assert has == (sentence != renamed)
            assert [word for word in sentence.split() if word not in words] == [
                word for word in renamed.split() if word not in words
            ]
            changed += has
    assert changed > 100


def test_stories_are_short_and_have_the_words_of_captions(world):
    told = list(stories(world, 400, 0))
    assert told == list(stories(world, 400, 0)) != list(stories(world, 400, 1))
    assert {len(story) for story in told} == set(range(8, 13))
    words = Counter(word for story in told for sentence in story for word in split(sentence.lower(), "treebank"))
    assert 3_800 < sum(map(len, told)) < 4_200
    assert 110 < len(words) < 160
    assert max(len(split(sentence, "treebank")) for story in told for sentence in story) < 30
    seen = [
        split(text.lower(), "treebank")
        for text in captions(random_scene(world, stream(world, 0)), world, stream(world, 1))
    ]
    things = {word for colour in world.colours.values() for word in colour.words}
    assert things <= words.keys()
    assert any(things & set(caption) for caption in seen)


def test_a_world_of_one_place_has_stories_too(small):
    still = small.model_copy(update={"places": only(small.places, "top")})
    assert next(stories(still, 1, 0))[0].startswith("There ")
    assert 0 < entropies(still).next < entropies(small).next
