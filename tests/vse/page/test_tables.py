"""Chance and published rows, against counting and against the papers; which pairs are drawn; drawings."""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from sightword.evaluation.published import PublishedRow, published
from sightword.evaluation.semantics.results import PairTable, ScoredPairs
from sightword.report import drawing
from sightword.report.tables import Row, Table
from sightword.statistics.inference import interval_text, proportion_interval
from sightword.vse.page import drawings
from sightword.vse.page.tables import (
    DIRECTIONS,
    FOLDS,
    OLDER,
    OTHER_SPLIT,
    QUERIES,
    chance,
    panels,
    retrieval,
    short_queries,
)  # fmt: skip

MERKX_TABLE_2 = """
Flickr8k | Klein 2015    | 21.2 1.1 50.0 1.4 64.8 1.3 5 | 31.0 2.9 59.3 3.0 73.7 2.7 4
Flickr8k | Wehrmann 2018 | 26.9 1.2 -    -   69.6 1.3 4 | 32.4 2.9 -    -   73.6 2.7 3
Flickr8k | Dong 2018     |                              | 36.3 3.0 66.4 2.9 78.2 2.6 -
Flickr8k | char-GRU      | 27.5 1.2 58.2 1.4 70.5 1.3 4 | 38.5 3.0 68.9 2.9 79.3 2.5 2
COCO 1k  | order-embeddings | 37.9 0.6 -    -   85.9 0.4 2 | 46.7 1.4 -    -   88.9 0.9 2
COCO 1k  | VSE++ (fine-tuned ResNet-152) | 52.0 0.6 84.3 0.5 92.0 0.3 1 | 64.6 1.3 90.0 0.8 95.7 0.6 1
COCO 1k  | Wehrmann 2018 | 40.4 0.6 -    -   88.6 0.4 2 | 49.5 1.4 -    -   91.3 0.8 1.6
COCO 1k  | char-GRU      | 41.4 0.6 76.8 0.5 88.0 0.4 2 | 51.2 1.4 83.5 1.0 92.1 0.7 1.2
COCO 5k  | order-embeddings | 18.0 0.5 -    -   57.6 0.6 7 | 23.3 1.2 -    -   65.0 1.3 5
COCO 5k  | VSE++ (fine-tuned ResNet-152) | 30.3 0.6 59.4 0.6 72.4 0.6 4 | 41.3 1.4 71.1 1.3 81.2 1.1 2
COCO 5k  | Kiela 2018    | 17.1 0.5 43.0 0.6 57.3 0.6 8 | 27.1 1.2 55.6 1.4 70.0 1.3 4
COCO 5k  | char-GRU      | 20.2 0.5 46.9 0.6 60.9 0.6 6 | 25.7 1.2 54.3 1.4 68.8 1.3 4
"""
"""Recalls with printed half-widths, and the median rank: caption to image, image to caption."""

VENDROV_TABLE_2 = """
1k earlier | MNLM                | 43.4 85.8 2    -    | 31.0 79.9 3    -
1k earlier | m-RNN               | 41.0 83.5 2    -    | 29.0 77.0 3    -
1k earlier | DVSA                | 38.4 80.5 1    -    | 27.4 74.8 3    -
1k earlier | STV                 | 33.8 82.1 3    -    | 25.9 74.6 4    -
1k         | FV                  | 39.4 80.9 2    10.4 | 25.1 76.6 4    11.1
1k earlier | m-CNN               | 38.3 81.0 2    -    | 27.4 79.5 3    -
1k earlier | m-CNN, four networks | 42.8 84.1 2    -    | 32.6 82.8 3    -
1k | order-embeddings, reversed  | 11.2 44.0 14.2 86.6 | 12.3 53.5 9.0  30.1
1k | order-embeddings, 1 crop    | 41.4 84.2 2.0  8.7  | 33.5 82.2 2.6  10.0
1k | order-embeddings, symmetric | 45.4 88.7 2.0  5.8  | 36.3 85.8 2.0  9.0
1k | order-embeddings            | 46.7 88.9 2.0  5.7  | 37.9 85.9 2.0  8.1
5k | DVSA                        | 11.8 45.4 12.2 -    | 8.9  36.3 19.5 -
5k | FV                          | 17.3 50.2 10.0 46.4 | 10.8 40.1 17.0 49.3
5k | order-embeddings, symmetric | 21.5 62.9 6.0  24.4 | 16.8 56.3 8.0  40.4
5k | order-embeddings            | 23.3 65.0 5.0  24.4 | 18.0 57.6 7.0  35.9
"""
"""R@1, R@10, median and mean rank: caption retrieval (image to caption) comes first in this paper."""


def printed(table: str) -> list[tuple[str, str, list[float | None], list[float | None]]]:
    found = []
    for line in table.strip().splitlines():
        data, system, *sides = (part.strip() for part in line.split("|"))
        first, second = ([None if word == "-" else float(word) for word in side.split()] for side in sides)
        found.append((data, system, first, second))
    return found


def every(*values: Any, **options: Any) -> list[Table]:
    return [table for together in retrieval(*values, **options).values() for table in together]


def spelt(row: Row) -> list[tuple[str, ...]]:
    """Return each value with what stands below."""
    return [(cell,) if isinstance(cell, str) else (cell.text, *cell.small) for cell in row.cells]


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
    (with_other_count,) = every(entry, {"test": [1, 1]}, with_published=False)
    assert [row.kind for row in with_other_count.rows] == ["ours"]
    (right,) = every(entry, {"test": [5, 5]}, with_published=False)
    assert [row.kind for row in right.rows] == ["ours", "chance"]


SCORES = ("r1", "r5", "r10", "median_rank", "mean_rank")


def side_of(row: PublishedRow, direction: str) -> list[float | None]:
    return [row.scores.get(f"{direction} {name}") for name in SCORES]


def test_a_table_has_the_published_rows_of_its_protocol() -> None:
    scores = {"r1": 1.0, "r5": 2.0, "r10": 3.0, "median_rank": 4.0, "queries": 10}
    both = {"caption_to_image": scores, "image_to_caption": scores}
    protocols = {"full": both, "five_fold_1k": both, "querybank": both}
    found = every({"test": protocols}, {"test": [1] * 10}, with_published=True)
    data = [[name.striptags().removesuffix(" published") for name, _ in table.groups] for table in found]
    assert data == [["Flickr8k", OTHER_SPLIT, "COCO 5k"]] * 2 + [["COCO 1k", "COCO 1k, earlier systems"]] * 2 + [[]] * 2
    ours_and_chance = [len(table.rows) for table in found]
    assert ours_and_chance == [2, 2, 1, 1, 2, 2]  # chance is given where all pictures are candidates
    there, back = ({row.name: spelt(row) for row in table.groups[0][1]} for table in found[2:4])
    symmetric = "order-embeddings, symmetric"  # Table 2 of Vendrov et al., 1,000 test pictures
    assert [cell[0] for cell in there[symmetric][:4]] == ["36.3", "–", "85.8", "2"]
    assert [cell[0] for cell in back[symmetric][:4]] == ["45.4", "–", "88.7", "2"]
    assert (there[symmetric][3][1], back[symmetric][3][1]) == ("mean 9.0", "mean 5.8")
    assert there["order-embeddings"][:4] == [("37.9", "± 0.6"), ("–",), ("85.9", "± 0.4"), ("2", "mean 8.1")]
    assert len([name for name in there if name.startswith("order-embeddings")]) == 4


def test_rows_of_merkx_and_frank_have_their_recalls_medians_and_intervals() -> None:
    rows = {(row.setting, row.system): row for row in published("retrieval")}
    for data, system, *sides in printed(MERKX_TABLE_2):
        row = rows.get((data, system))
        assert row is not None, (data, system)
        for direction, side in zip(("caption_to_image", "image_to_caption"), sides, strict=True):
            scores = side_of(row, direction)
            assert any(scores) == bool(side), (data, system)
            if side:
                assert [*scores[:4]] == [*side[:6:2], side[6]], (data, system, direction)
                queries = QUERIES[data][direction]
                found = [one and interval_text(proportion_interval(one, queries)) for one in scores[:3]]
                assert found == [half and f"± {half}" for half in side[1:6:2]], (data, system, direction)


def test_rows_of_vendrov_et_al_are_those_of_their_table() -> None:
    names = {"1k": FOLDS, "1k earlier": OLDER, "5k": "COCO 5k"}
    expected = {
        (system, names[data]): tuple([side[0], None, *side[1:]] for side in (there, back))
        for data, system, back, there in printed(VENDROV_TABLE_2)
    }
    found = {
        (row.system, row.setting): tuple(side_of(row, direction) for direction in DIRECTIONS)
        for row in published("retrieval")
        if row.source.endswith("Vendrov et al. 2016")
    }
    assert found == expected


def scored(count: int, seed: int = 0, *, known: bool = True) -> ScoredPairs:
    draw = np.random.default_rng(seed)
    gold = draw.uniform(0, 5, count)
    seen = draw.random(count) < 0.3
    texts = [f"sentence {number}" for number in range(count)]
    score = gold / 5 + draw.normal(0, 0.2, count)
    return ScoredPairs(texts, texts, gold, score, seen if known else None, ~seen if known else None)


def test_a_task_has_one_panel_with_all_its_subtasks_and_the_trained_head_has_none() -> None:
    one, other, third = scored(30), scored(50, 1), scored(20, 2, known=False)
    table = {("STS12", "a"): one, ("SICK", "cosine"): third, ("SICK", "trained"): scored(20, 3), ("STS12", "b"): other}
    (first, second), others = panels(PairTable(table), 1000)
    assert (first.task, first.pairs, second.task, second.pairs, others) == ("STS12", 80, "SICK", 20, 0)
    gold, score = np.concatenate([one.gold, other.gold]), np.concatenate([one.score, other.score])
    assert first.pearson == pytest.approx(np.corrcoef(gold, score)[0, 1])
    assert first.gold.tolist() == gold.tolist()
    assert first.seen.all()
    assert not second.seen.any()


def test_small_sets_leave_their_points_to_the_large_ones_and_the_choice_stays() -> None:
    table = PairTable({("A", "x"): scored(10), ("B", "x"): scored(400, 1), ("C", "x"): scored(500, 2)})
    found, _ = panels(table, 210)
    assert [len(panel.gold) for panel in found] == [10, 100, 100]
    more, _ = panels(table, 410)
    for few, many in zip(found, more, strict=True):
        assert set(few.score) <= set(many.score)
    assert {panel.task: panel.pearson for panel in found} == {panel.task: panel.pearson for panel in more}


# Drawings: fixed bytes


def drawn(points: int = 50) -> str:
    x = np.arange(1, points + 1, dtype=float)
    return drawings.curve(x.tolist(), (1 / x).tolist(), "Loss").in_page()


def test_the_same_numbers_give_the_same_bytes_whatever_the_users_settings() -> None:
    before = drawn()
    svg = drawings.curve([1, 2, 3], [3, 2, 1], "t").svg()
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "else"}):
        assert drawn() == before
        assert drawings.curve([1, 2, 3], [3, 2, 1], "t").svg() == svg
    assert "fill: #ffffff" in svg[: svg.index("axes_1")]  # a file needs no page: white paper below the axes
    assert not any(wrong in svg for wrong in ("date", "currentColor", "var(", drawing.INK))


def test_a_long_curve_stays_small_and_true() -> None:
    assert len(drawn(points=100_000)) < 40_000
    x = np.arange(10_000, dtype=float)
    y = np.random.default_rng(0).normal(size=10_000)
    middle_x, middle, low, high = drawing.segments(x, y)
    assert len(middle) == drawing.POINTS
    assert middle.mean() == pytest.approx(y.mean(), abs=1e-3)
    assert low.min() == y.min()
    assert high.max() == y.max()
    assert np.all(np.diff(middle_x) > 0)


def test_short_queries_have_a_row_for_each_number_of_words():
    scores = {"map": 26.94, "map_ci95": 2.5, "first_right": 45.0, "first_right_ci95": [40.1, 49.9]}
    scores |= {"first_right_chance": 4.39, "queries": 300}
    metrics = {"test": {"full": {}, "short_queries": {"one_word": scores, "two_words": scores}}, "dev": {"full": {}}}
    table = short_queries(metrics)["test"]
    assert [row.name for row in table.rows] == ["one word", "two words"]
    assert [getattr(cell, "text", cell) for cell in table.rows[0].cells] == ["26.9", "45.0", "4.4", "300"]
    assert short_queries({"test": {"skipped": {"short_queries": "too few"}}}) == {}
