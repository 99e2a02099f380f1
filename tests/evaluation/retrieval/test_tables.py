from __future__ import annotations

import numpy as np
import pytest

from sightword.evaluation.retrieval.measuring import TOP_SCHEMA, rank_rows, recall_rows, top_table
from sightword.evaluation.retrieval.ranks import Ranks, rank


def made(to_image, to_caption):
    return Ranks(np.array(to_image), np.array(to_caption), np.zeros(len(to_image), int))


def test_the_lists_name_query_and_candidate_by_id():
    images = np.array([[1.0, 0.0], [0.0, 1.0]])
    captions = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]])
    owner, numbers = np.array([0, 0, 1]), np.array([0, 1, 0])
    table = top_table(
        rank(captions, images, owner, top=1),
        split="test",
        image_ids=["a.jpg", "b.jpg"],
        image_of_caption=owner,
        caption_numbers=numbers,
    )
    assert table.schema == TOP_SCHEMA
    keys = ("direction", "query_image", "query_caption", "position", "image_id", "caption", "right")
    assert [tuple(row[key] for key in keys) for row in table.to_pylist()] == [
        ("caption_to_image", "a.jpg", 0, 1, "b.jpg", -1, False),
        ("caption_to_image", "a.jpg", 1, 1, "a.jpg", -1, True),
        ("caption_to_image", "b.jpg", 0, 1, "b.jpg", -1, True),
        ("image_to_caption", "a.jpg", -1, 1, "a.jpg", 1, True),
        ("image_to_caption", "b.jpg", -1, 1, "b.jpg", 0, True),
    ]
    assert table["score"].to_pylist() == pytest.approx([0.8, 1, 1, 1, 1])
    assert set(table["split"].to_pylist()) == {"test"}


def test_ranks_without_lists_make_no_table():
    with pytest.raises(ValueError, match="without their best candidates"):
        top_table(
            made([1], [1]),
            split="test",
            image_ids=["a"],
            image_of_caption=np.array([0]),
            caption_numbers=np.array([0]),
        )


def test_recall_is_given_at_every_k_there_is():
    assert recall_rows(made([1, 2, 3, 3], [1, 3, 4])) == [(1, 25.0, 100 / 3), (2, 50.0, 100 / 3), (3, 100.0, 200 / 3)]


def test_ranks_are_counted_in_bins_that_double():
    rows = rank_rows(made([1, 1, 3, 9], [2, 4]))
    assert rows == [("1", 50.0, 0.0), ("2", 0.0, 50.0), ("3-4", 25.0, 50.0), ("5-8", 0.0, 0.0), ("9-16", 25.0, 0.0)]


def test_every_query_is_in_one_bin():
    ranks = np.random.default_rng(0).integers(1, 1000, 500)
    assert sum(row[1] for row in rank_rows(made(ranks, [1]))) == pytest.approx(100)
