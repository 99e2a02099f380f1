"""Ids, splits and captions; ids that do not exist."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from sightword.captions.table import CaptionTable
from sightword.errors import SearchError
from sightword.search.catalogue import build

TABLE = CaptionTable(
    ["a.jpg", "a.jpg", "b.jpg", "c.jpg", "gone.jpg"],
    [0, 1, 0, 0, 0],
    ["train", "train", "test", "dev", "test"],
    ["a dog", "a cat", "a dog", "a cow", "lost"],
    [],
)
PICTURES = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]


def test_a_text_stands_there_once_with_all_its_pictures_and_test_comes_first():
    found = build(PICTURES, TABLE)
    assert [(caption.text, caption.pictures) for caption in found.captions] == [
        ("a dog", ("b.jpg", "a.jpg")),
        ("a cow", ("c.jpg",)),
        ("a cat", ("a.jpg",)),
    ]
    assert found.captions_of["a.jpg"] == ["a dog", "a cat"]
    assert (found.rows.get("c.jpg"), found.rows.get("gone.jpg")) == (2, None)


def test_two_unicode_forms_of_a_text_are_one():
    found = build(PICTURES, replace(TABLE, texts=["caf\u00e9", "a cat", "cafe\u0301", "a cow", "lost"]))
    assert [caption.pictures for caption in found.captions] == [("b.jpg", "a.jpg"), ("c.jpg",), ("a.jpg",)]


def test_a_split_alone():
    found = build(PICTURES, TABLE, "dev")
    assert (found.pictures, [caption.text for caption in found.captions]) == (["c.jpg"], ["a cow"])
    with pytest.raises(SearchError, match=r"no picture of the split 'dev' has features; expected train or test"):
        build(["a.jpg"], TABLE.rows([0, 1, 2]), "dev")


def test_without_captions_there_are_pictures():
    assert build(PICTURES, None).pictures == PICTURES


def test_an_id_that_does_not_exist_names_near_ones_quickly():
    names = [f"{number:012d}_abcdef.jpg" for number in range(30_000)]
    found = build(names, None)
    begun = time.perf_counter()
    with pytest.raises(SearchError, match=r"'000000012345_abcdef'. Did you mean 000000012345_abcdef.jpg or"):
        found.find("000000012345_abcdef")
    assert time.perf_counter() - begun < 10  # comparing closely with each takes minutes
    with pytest.raises(SearchError, match=r"no picture has the id '–'$"):
        found.find("–")


def test_captions_are_found_by_their_language():
    table = replace(TABLE, languages=["en", "de", "de", "en", "fr"])
    found = build(PICTURES, table)
    assert [caption.languages for caption in found.captions] == [("de", "en"), ("en",), ("de",)]
    assert {language: set(found.captions_in(language)) for language in found.languages} == {"de": {0, 2}, "en": {0, 1}}
    assert [found.texts("a.jpg", language) for language in (None, "de", "fr")] == [["a dog", "a cat"], ["a cat"], []]
    with pytest.raises(SearchError, match=r"no caption is in the language 'fr'; expected de or en"):
        found.captions_in("fr")
    with pytest.raises(SearchError, match=r"no caption is in the language 'de'. The captions have no column"):
        build(PICTURES, TABLE).captions_in("de")
