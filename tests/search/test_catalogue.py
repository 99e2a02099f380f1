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


def test_text_shared_by_pictures_is_listed_once_test_first():
    assert build(PICTURES, None).pictures == PICTURES
    found = build(PICTURES, TABLE)
    assert [(caption.text, caption.pictures) for caption in found.captions] == [
        ("a dog", ("b.jpg", "a.jpg")),
        ("a cow", ("c.jpg",)),
        ("a cat", ("a.jpg",)),
    ]
    assert found.captions_of["a.jpg"] == ["a dog", "a cat"]
    assert (found.rows.get("c.jpg"), found.rows.get("gone.jpg")) == (2, None)


def test_unicode_forms_of_a_text_are_one_caption():
    found = build(PICTURES, replace(TABLE, texts=["caf\u00e9", "a cat", "cafe\u0301", "a cow", "lost"]))
    assert [caption.pictures for caption in found.captions] == [("b.jpg", "a.jpg"), ("c.jpg",), ("a.jpg",)]


def test_split_has_its_own_pictures_and_captions():
    found = build(PICTURES, TABLE, "dev")
    assert (found.pictures, [caption.text for caption in found.captions]) == (["c.jpg"], ["a cow"])
    with pytest.raises(SearchError, match=r"no picture of the split 'dev' has features; expected train or test"):
        build(["a.jpg"], TABLE.rows([0, 1, 2]), "dev")


def test_unknown_id_names_near_ids_quickly():
    names = [f"{number:012d}_abcdef.jpg" for number in range(30_000)]
    found = build(names, None)
    begun = time.perf_counter()
    with pytest.raises(SearchError, match=r"'000000012345_abcdef'. Did you mean 000000012345_abcdef.jpg or"):
        found.find("000000012345_abcdef")
    assert time.perf_counter() - begun < 10  # comparing closely with each takes minutes
    with pytest.raises(SearchError, match=r"no picture has the id '–'$"):
        found.find("–")
