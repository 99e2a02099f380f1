"""Chance and published rows, against counting and against the papers."""

from __future__ import annotations

import itertools

import pytest

from sightword.report import published
from sightword.report.retrieval_table import chance, tables


@pytest.mark.parametrize("each", [[1, 1, 1], [2, 1, 3], [5, 1], [2, 2, 2]])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_chance_is_what_random_orders_reach(each: list[int], depth: int) -> None:
    owners = [picture for picture, count in enumerate(each) for _ in range(count)]
    hits = total = 0
    for order in set(itertools.permutations(owners)):
        for picture in range(len(each)):
            hits += picture in order[:depth]
            total += 1
    assert chance("image_to_caption", each, depth) == pytest.approx(100 * hits / total)
    assert chance("caption_to_image", each, depth) == pytest.approx(100 * min(1, depth / len(each)))


def test_chance_stays_out_where_the_candidates_are_not_known() -> None:
    scores = {"r1": 1.0, "r5": 2.0, "r10": 3.0, "median_rank": 4.0, "queries": 10}
    entry = {"test": {"full": {"caption_to_image": scores}}}
    (with_other_count,) = tables(entry, {"test": [1, 1]}, with_published=False)
    assert [row.kind for row in with_other_count.blocks[0][1]] == ["ours"]
    (right,) = tables(entry, {"test": [5, 5]}, with_published=False)
    assert [row.kind for row in right.blocks[0][1]] == ["ours", "chance"]


def test_published_rows_are_consistent() -> None:
    keys = [(row.system, row.data) for row in published.ROWS]
    assert len(set(keys)) == len(keys)
    for row in published.ROWS:
        for scores in (row.caption_to_image, row.image_to_caption):
            if scores is not None:
                recalls = [value for value in (scores.r1, scores.r5, scores.r10) if value is not None]
                assert recalls == sorted(recalls)
                assert 0 < recalls[0] < recalls[-1] <= 100
                assert scores.median_rank is None or scores.median_rank >= 1


def test_a_larger_test_set_is_harder_in_the_papers_too() -> None:
    by_key = {(row.system, row.data): row for row in published.ROWS}
    for system in ("char-GRU", "order-embeddings", "VSE++ (fine-tuned ResNet-152)"):
        small, large = by_key[system, "COCO 1k"], by_key[system, "COCO 5k"]
        assert small.caption_to_image is not None
        assert large.caption_to_image is not None
        assert (small.caption_to_image.r10 or 0) > (large.caption_to_image.r10 or 0)


def test_a_table_has_the_published_rows_of_its_protocol() -> None:
    scores = {"r1": 1.0, "r5": 2.0, "r10": 3.0, "median_rank": 4.0, "queries": 10}
    both = {"caption_to_image": scores, "image_to_caption": scores}
    protocols = {"full": both, "five_fold_1k": both, "querybank": both}
    found = tables({"test": protocols}, {"test": [1] * 10}, with_published=True)
    data = [[name for name, _ in table.blocks[1:]] for table in found]
    assert data == [["Flickr8k", "COCO 5k"]] * 2 + [["COCO 1k"]] * 2 + [[]] * 2
    ours_and_chance = [len(table.blocks[0][1]) for table in found]
    assert ours_and_chance == [2, 2, 1, 1, 2, 2]  # chance is given where all pictures are candidates
    there, back = ({row.name: row.cells for row in table.blocks[1][1]} for table in found[2:4])
    symmetric = "order-embeddings, symmetric"  # Table 2 of Vendrov et al., 1,000 test pictures
    assert [text for text, _ in there[symmetric]] == ["36.3", "–", "85.8", "2"]
    assert [text for text, _ in back[symmetric]] == ["45.4", "–", "88.7", "2"]
    assert (there[symmetric][3][1], back[symmetric][3][1]) == ("mean 9.0", "mean 5.8")
    assert there["order-embeddings"] == [("37.9", "± 0.6"), ("–", ""), ("85.9", "± 0.4"), ("2", "mean 8.1")]
    assert len([name for name in there if name.startswith("order-embeddings")]) == 4


def test_the_char_gru_on_flickr8k_is_as_printed() -> None:
    row = next(row for row in published.ROWS if (row.system, row.data) == ("char-GRU", "Flickr8k"))
    assert row.caption_to_image == published.Direction(27.5, 58.2, 70.5, 4)
    assert row.image_to_caption == published.Direction(38.5, 68.9, 79.3, 2)
