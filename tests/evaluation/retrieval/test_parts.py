"""Parts of the captions, counted apart, give the ranks of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword import machine
from sightword.evaluation.retrieval import distributed, ranks
from sightword.evaluation.retrieval.distributed import WORTH_IT, Worker, shared
from sightword.evaluation.retrieval.parts import Parts, cut, seconds
from sightword.evaluation.retrieval.ranks import prepare, rank
from sightword.evaluation.retrieval.similarity import NAMES

MACHINE = replace(machine.current(), device="cpu", threads=1)


def same(found, expected):
    np.testing.assert_array_equal(found.caption_to_image, expected.caption_to_image)
    np.testing.assert_array_equal(found.image_to_caption, expected.image_to_caption)
    np.testing.assert_array_equal(found.image_of_caption, expected.image_of_caption)
    for own, other in ((found.top_images, expected.top_images), (found.top_captions, expected.top_captions)):
        assert (own is None) == (other is None)
        if own is not None:
            np.testing.assert_array_equal(own.candidate, other.candidate)
            np.testing.assert_array_equal(own.score, other.score)


@st.composite
def corpora(draw):
    """Pictures and captions of few kinds and small whole numbers, so that ties abound, in any order."""
    pictures, width = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    extra = draw(st.lists(st.integers(0, pictures - 1), max_size=16))
    owner = np.array(draw(st.permutations([*range(pictures), *extra])))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    images, captions = (random.integers(-1, 2, (count, width)) for count in (pictures, len(owner)))
    return images.astype(np.float32), captions.astype(np.float32), owner


@pytest.mark.parametrize("similarity", NAMES)
@given(corpus=corpora(), tile=st.sampled_from([1, 2, 64]), top=st.sampled_from([0, 1, 3, 50]), data=st.data())
@settings(deadline=None, max_examples=50)
def test_parts_in_any_order_give_the_ranks_and_lists_of_the_whole(similarity, corpus, tile, top, data):
    captions = len(corpus[2])
    inner = data.draw(st.sets(st.integers(1, (captions - 1) // tile), max_size=6)) if captions > tile else set()
    ends = [0, *sorted(tile * one for one in inner), captions]
    parts = data.draw(st.permutations([slice(*ends[at : at + 2]) for at in range(len(ends) - 1)]))
    scoring = prepare(*corpus, similarity)
    found = Parts(scoring, top)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "_TILE", tile)
        patch.setattr(ranks, "_BLOCK_BYTES", 8 * 3 * corpus[0].shape[1])
        worker = Worker(similarity, top, MACHINE, *shared(scoring))
        waiting = []
        for part in parts:
            waiting.append((part, found.least()))
            while waiting and data.draw(st.booleans()):
                found.add(worker(waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))))
        for piece in waiting:
            found.add(worker(piece))
        same(found.ranks(), rank(*corpus, similarity, top=top))


@pytest.mark.parametrize("similarity", NAMES)
def test_a_part_is_compared_as_the_whole_side_asks(similarity, monkeypatch):
    monkeypatch.setattr(ranks, "_TILE", 100)
    random = np.random.default_rng(4)
    images = random.standard_normal((150, 24)).astype(np.float32)
    images[3], images[4] = 0, 1e-30 * images[5]
    owner = random.permutation(np.concatenate([np.arange(150), random.integers(0, 150, 300)]))
    captions = images[owner] + random.standard_normal((450, 24))
    captions[430] *= 1e9  # the longest row is in one part
    scoring = prepare(images, captions, owner, similarity)
    worker, found = Worker(similarity, 5, MACHINE, *shared(scoring)), Parts(scoring, 5)
    for part in (slice(400, 450), slice(0, 100), slice(100, 400)):
        found.add(worker((part, found.least())))
    same(found.ranks(), rank(images, captions, owner, similarity, top=5))


@pytest.mark.parametrize("captions", [1, 1024, 5000, 1_000_000])
@pytest.mark.parametrize("pictures", [1, 40_000, 3_000_000])
@pytest.mark.parametrize("side", [1024, 4096])
def test_parts_have_whole_tiles_and_each_caption_once(captions, pictures, side):
    parts = cut(captions, pictures, 256, side)
    assert (parts[0].start, parts[-1].stop) == (0, captions)
    assert [part.stop for part in parts[:-1]] == [part.start for part in parts[1:]]
    assert all(part.start % side == 0 < part.stop - part.start for part in parts)


def test_a_usual_test_split_is_little_work_and_a_million_captions_are_many_parts():
    assert seconds(25_000, 5_000, 1024) < WORTH_IT < seconds(1_000_000, 200_000, 64)
    small, wide, large = ((60_000, 12_000, 64), (60_000, 12_000, 4096), (1_000_000, 200_000, 64))
    assert 29 < len(cut(*small, 1024)) <= len(cut(*wide, 1024)) < len(cut(*large, 1024)) < 1000


def test_a_cluster_is_opened_for_all_rankings_together(monkeypatch):
    class OpenedError(Exception):
        pass

    def opened(*_):
        raise OpenedError

    monkeypatch.setattr(distributed, "opened", opened)
    size = {"captions": 150_000, "pictures": 30_000, "dimensions": 64}
    assert WORTH_IT / 2 < seconds(*size.values()) < WORTH_IT
    here = replace(MACHINE, engine="ray")
    with distributed.ranker(here, **size) as one:
        assert callable(one)
    with pytest.raises(OpenedError), distributed.ranker(here, **size, rankings=2):
        pass
