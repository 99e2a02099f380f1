"""The packaged encoder searches real photographs, as the first lines of the README show."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightword.search.opening import open_search
from sightword.search.searcher import Searcher
from tools import search_strip

PHOTOGRAPHS = Path(__file__).parents[2] / "docs/images/photographs"
RIGHT = {
    "a cup of coffee on a table": "coffee.jpg",
    "a photgrapher wiht a tripod": "photographer.jpg",
    "a bridge at night": "bridge.jpg",
}


@pytest.fixture(scope="module")
def found() -> Searcher:
    searcher, _ = open_search(
        "flickr8k", Path(), None, weights=None, weights_folder=PHOTOGRAPHS, collection=PHOTOGRAPHS
    )
    searcher.read_pictures()
    return searcher


def test_sentences_find_their_photograph_first(found):
    for query, picture in RIGHT.items():
        answer = found.pictures(query, 3)
        assert (answer.hits[0].picture, answer.weak) == (picture, False), query


def test_a_sentence_about_what_no_photograph_shows_is_a_weak_match(found):
    for query in ("The stock market fell on Monday .", "Your password must have eight letters ."):
        assert found.pictures(query, 1).weak, query


def test_the_strip_asks_what_finds_its_photograph():
    assert {*RIGHT} == {*search_strip.QUERIES}
