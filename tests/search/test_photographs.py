"""The packaged encoder searches real photographs, as the first lines of the README show."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightword
from sightword.search.searcher import Searcher
from tools import search_strip

PHOTOGRAPHS = Path(__file__).parents[2] / "docs/images/photographs"
RIGHT = {
    "flickr8k": {
        "a cup of coffee on a table": "coffee.jpg",
        "a photgrapher wiht a tripod": "photographer.jpg",
        "a bridge at night": "bridge.jpg",
    },
    "multi30k": {
        "a cup of coffee on a table": "coffee.jpg",
        "eine Tasse Kaffee auf einem Tisch": "coffee.jpg",
        "eine Brücke bei Nacht": "bridge.jpg",
    },
}


@pytest.fixture(scope="module", params=RIGHT)
def found(request) -> tuple[str, Searcher]:
    return request.param, sightword.open_search(request.param, PHOTOGRAPHS)


def test_sentences_find_their_photograph_first(found):
    name, searcher = found
    for query, picture in RIGHT[name].items():
        answer = searcher.pictures(query, 3)
        assert (answer.hits[0].picture, answer.weak) == (picture, False), query


def test_a_sentence_about_what_no_photograph_shows_is_a_weak_match(found):
    name, searcher = found
    queries = ["The stock market fell on Monday .", "Your password must have eight letters ."]
    for query in [*queries, *["Der Aktienmarkt fiel am Montag."] * (name == "multi30k")]:
        assert searcher.pictures(query, 1).weak, query


def test_the_strips_ask_what_finds_its_photograph():
    assert {name: tuple(queries) for name, queries in RIGHT.items()} == search_strip.QUERIES
