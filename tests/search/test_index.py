"""The search finds what comparing with everything finds."""

from __future__ import annotations

import math
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightword.evaluation.retrieval.index as index_module
from sightword.errors import SearchError
from sightword.evaluation.retrieval.index import Index
from sightword.evaluation.retrieval.ranks import rank

SIMILARITIES = ("cosine", "dot", "order", "reversed_order")


def index(rows: np.ndarray, similarity: str = "cosine", holds: str = "pictures", threads: int = 1) -> Index:
    found = Index(len(rows), rows.shape[1], similarity, holds, threads=threads)
    for start in range(0, len(rows), 1000):
        found.add(rows[start : start + 1000])
    return found


def in_order(rows: list[list[int]], query: list[int], similarity: str, holds: str) -> list[int]:
    """All rows, the best first, by whole numbers: nothing is rounded."""

    def badness(row: list[int]) -> Fraction | int:
        product = sum(a * b for a, b in zip(row, query, strict=True))
        if similarity == "dot":
            return -product
        if similarity == "cosine":
            length = sum(a * a for a in row)
            return Fraction(-product * abs(product), length) if length else 0
        caption, picture = (query, row) if holds == "pictures" else (row, query)
        lower, upper = (caption, picture) if similarity == "order" else (picture, caption)
        return sum(max(0, a - b) ** 2 for a, b in zip(lower, upper, strict=True))

    return sorted(range(len(rows)), key=lambda place: (badness(rows[place]), place))


@given(
    st.integers(1, 5).flatmap(
        lambda width: st.tuples(
            st.lists(st.lists(st.integers(-4, 4), min_size=width, max_size=width), min_size=1, max_size=40),
            st.lists(st.lists(st.integers(-4, 4), min_size=width, max_size=width), min_size=1, max_size=5),
        )
    ),
    st.sampled_from(SIMILARITIES),
    st.sampled_from(("captions", "pictures")),
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from(
        [{"_SAMPLE": 2}, {"_SCORES": 30}, {"_SCORES": 90, "_SAMPLE": 3}],
    ),
)
def test_best_rows_are_those_of_exact_arithmetic_in_order(case, similarity, holds, top, threads, sizes):
    rows, queries = case
    with mock.patch.multiple(index_module, **sizes):
        found = index(np.array(rows, np.float32), similarity, holds, threads).search(np.array(queries, np.float32), top)
    assert found.rows.tolist() == [in_order(rows, query, similarity, holds)[:top] for query in queries]
    assert (np.diff(found.scores) <= 0).all()


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("holds", ["captions", "pictures"])
def test_answers_are_those_of_the_stage_retrieval(similarity, holds):
    """Two programs, one order: neighbours in 300 dimensions, copies among them."""
    random = np.random.default_rng(0)
    pictures = np.abs(random.normal(size=(2000, 300))).astype(np.float32)
    pictures[1000:1010] = pictures[17]
    captions = np.abs(pictures + random.normal(scale=0.5, size=pictures.shape)).astype(np.float32)
    found = rank(captions, pictures, np.arange(2000), similarity, top=10)
    top = found.top_images if holds == "pictures" else found.top_captions
    ours = index(pictures if holds == "pictures" else captions, similarity, holds, threads=2)
    queries = captions if holds == "pictures" else pictures
    answer = ours.search(queries[:300], 10)
    assert np.array_equal(answer.rows, top.candidate[:300])
    assert np.allclose(answer.scores, top.score[:300], rtol=1e-7, atol=1e-9)


def test_scores_are_cosine_product_and_minus_order_error():
    rows, query = np.array([[3, 4], [0, 0], [-1, 0]], np.float32), np.array([2, 0], np.float32)
    found = index(rows).best(query, 3)
    assert found.rows.tolist() == [0, 1, 2]
    assert found.scores.tolist() == pytest.approx([0.6, 0, -1], abs=1e-9)
    assert index(rows, "dot").best(query, 3).scores.tolist() == [6, 0, -2]
    assert index(rows, "order").best(query, 3).scores.tolist() == [0, -4, -9]


def test_more_asked_for_than_there_is_gives_all():
    rows = np.eye(3, dtype=np.float32)
    assert index(rows).best(rows[1], 10).rows.tolist() == [1, 0, 2]
    assert len(Index(5, 3, "cosine", "pictures").best(rows[0], 3).rows) == 0


def test_collapsed_encoder_gives_the_first_ids():
    rows = np.full((5000, 32), 1 / math.sqrt(32), np.float32)
    assert index(rows).best(rows[0], 10).rows.tolist() == list(range(10))


def test_rows_can_be_added_while_others_search():
    rows = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    growing = Index(200, 16, "cosine", "captions")
    for start in range(0, 200, 50):
        growing.add(rows[start : start + 50])
        whole = index(rows[: start + 50], "cosine", "captions")
        assert growing.best(rows[7], 9).rows.tolist() == whole.best(rows[7], 9).rows.tolist()


def test_values_that_are_not_finite_are_refused():
    bad = np.array([[np.nan, 1]], np.float32)
    with pytest.raises(SearchError, match="not finite"):
        index(bad)
    with pytest.raises(SearchError, match="not finite"):
        index(np.eye(2, dtype=np.float32)).best(bad[0], 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-43, 1e-38, 1e-20, 1e20, 3e38])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_rows_of_any_length_of_float32_are_found(similarity, size):
    random = np.random.default_rng(0)
    rows = (size * random.uniform(-1, 1, (300, 16))).astype(np.float32)
    queries = random.uniform(-1, 1, (3, 16)).astype(np.float32)
    scores = queries.astype(np.float64) @ rows.T.astype(np.float64)
    if similarity == "cosine":
        scores /= np.linalg.norm(rows.astype(np.float64), axis=1)
    expected = np.argsort(-scores, axis=1)[:, :5]
    assert index(rows, similarity).search(queries, 5).rows.tolist() == expected.tolist()
    assert index(rows, similarity).best(queries[0], 5).rows.tolist() == expected[0].tolist()
