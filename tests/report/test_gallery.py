"""The gallery shows what was asked, hits and misses alike, by a rule that nobody can bend."""

from __future__ import annotations

import base64
import io
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sightword.report import gallery
from sightword.report.inputs import RunFiles

RANKS = st.dictionaries(
    st.tuples(st.sampled_from([f"picture {n}" for n in range(12)]), st.integers(0, 4)), st.integers(0, 10), max_size=40
)


@given(RANKS, st.integers(0, 15))
@settings(max_examples=200, deadline=None)
def test_choice_is_a_fair_subset(ranks: dict[tuple[str, int], int], number: int) -> None:
    chosen = gallery.choose(ranks, number)
    assert len(chosen) == min(number, len(ranks))
    assert all(ranks[query] == rank for query, rank in chosen.items())
    backwards = dict(reversed(ranks.items()))
    assert list(gallery.choose(backwards, number).items()) == list(chosen.items())


@given(RANKS)
@settings(max_examples=100, deadline=None)
def test_every_outcome_is_shown_where_there_is_one(ranks: dict[tuple[str, int], int]) -> None:
    once = {query: rank for query, rank in ranks.items() if query[1] == 0}
    shown = {gallery.outcome(rank) for rank in gallery.choose(once, 3).values()}
    assert shown == {gallery.outcome(rank) for rank in once.values()}


def test_a_third_each_and_no_picture_twice() -> None:
    ranks = {(f"picture {n}", caption): (1, 5, 0)[n % 3] for n in range(60) for caption in range(5)}
    chosen = gallery.choose(ranks, 12)
    assert Counter(gallery.outcome(rank) for rank in chosen.values()) == {"first": 4, "found": 4, "missed": 4}
    assert len({image for image, _ in chosen}) == 12


def test_the_right_picture_is_framed_or_added(run_folder: RunFiles) -> None:
    top = gallery.read_top(run_folder.top)
    captions = gallery.read_captions(run_folder.captions, ["test"])
    made = gallery.build(top, captions, run_folder.resized, number=9, thumbnail=64)
    assert [query.outcome for query in made.captions] == ["first"] * 3 + ["found"] * 3 + ["missed"] * 3
    for query in made.captions:
        assert [tile.position for tile in query.answers] == list(range(1, 11))
        right = [tile.position for tile in query.answers if tile.right]
        assert right == ([query.rank] if query.rank else [])
        assert (query.truth is None) == bool(right)
    for picture in made.pictures:
        assert any(answer.right for answer in picture.answers) == bool(picture.rank)
        assert (picture.truth is None) == bool(picture.rank)
        assert len(picture.answers) <= gallery.SHOWN + 1
    assert made.without_thumbnails == 0


def test_thumbnails_are_the_pictures_themselves_and_small(run_folder: RunFiles) -> None:
    captions = gallery.read_captions(run_folder.captions, ["test"])
    made = gallery.build(gallery.read_top(run_folder.top), captions, run_folder.resized, number=40, thumbnail=64)
    colours = {"red": (204, 51, 51), "blue": (51, 102, 204), "green": (51, 153, 51), "yellow": (221, 187, 51)}
    for query in made.pictures:
        uri = query.asked.thumbnail
        assert uri is not None
        with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as picture:
            assert max(picture.size) <= 128
            found = picture.convert("RGB").getcolors(1 << 20)
        wanted = colours[query.asked.text.split()[1]]
        assert found is not None
        near = sum(
            count for count, colour in found if sum(abs(a - b) for a, b in zip(colour, wanted, strict=True)) < 60
        )
        assert near > 100
