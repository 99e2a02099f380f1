"""Languages, lengths and tables of retrieval, against plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.evaluation.retrieval import ranks as ranks_module
from sightword.evaluation.retrieval.measuring import (
    TOP_SCHEMA,
    languages_entries,
    length_pairs,
    lengths_entry,
    rank_rows,
    recall_rows,
    short_entry,
    short_queries,
    top_table,
    words,
)
from sightword.evaluation.retrieval.protocols import score
from sightword.evaluation.retrieval.ranks import Ranks, rank, rank_best


def scores_of(name, query, candidates):
    """Exact scores of small whole numbers; the cosine's are compared with a margin."""
    if name == "order":
        return -(np.maximum(query - candidates, 0) ** 2).sum(1)
    if name == "reversed_order":
        return -(np.maximum(candidates - query, 0) ** 2).sum(1)
    products = candidates @ query
    lengths = np.linalg.norm(candidates, axis=1) * np.linalg.norm(query)
    return products if name == "dot" else np.divide(products, lengths, out=np.zeros(len(products)), where=lengths > 0)


def plain_rank(name, query, candidates, right, left_out=()):
    """1 + the wrong candidates that score at least as high as the best right one."""
    scores = scores_of(name, query, candidates)
    best = max(scores[row] for row in right)
    rivals = [row for row in range(len(candidates)) if row not in right and row not in left_out]
    return 1 + sum(scores[row] >= best - 1e-9 for row in rivals)


@pytest.mark.parametrize("name", ["cosine", "dot", "order", "reversed_order"])
def test_the_rank_of_the_best_right_answer_is_counted_one_by_one(name, monkeypatch):
    monkeypatch.setattr(ranks_module, "_TILE", 7)
    draw = np.random.default_rng(0)
    candidates, queries = draw.integers(0, 3, (40, 4)).astype(float), draw.integers(0, 3, (15, 4)).astype(float)
    right = [draw.choice(40, draw.integers(1, 4), replace=False) for _ in queries]
    left_out = [np.setdiff1d(draw.choice(40, 3), mine) for mine in right]

    def pairs(lists):
        return np.repeat(np.arange(15), [len(one) for one in lists]), np.concatenate(lists)

    found = rank_best(queries, candidates, pairs(right), name)
    assert found.tolist() == [plain_rank(name, *row) for row in zip(queries, [candidates] * 15, right, strict=True)]
    found = rank_best(queries, candidates, pairs(right), name, left_out=pairs(left_out))
    every = zip(queries, [candidates] * 15, right, left_out, strict=True)
    assert found.tolist() == [plain_rank(name, *row) for row in every]


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4)), min_size=1, max_size=25),
    st.integers(0, 30),
)
def test_the_chosen_pairs_differ_most_of_all_pairs_of_captions_of_a_picture(captions, most):
    lengths, owner = (np.array(column) for column in zip(*captions, strict=True))
    shorter, longer = length_pairs(lengths, owner, most)
    every = [
        abs(int(lengths[one] - lengths[other]))
        for one, other in itertools.combinations(range(len(owner)), 2)
        if owner[one] == owner[other] and lengths[one] != lengths[other]
    ]
    assert (lengths[longer] - lengths[shorter]).tolist() == sorted(every, reverse=True)[:most]
    assert (owner[shorter] == owner[longer]).all()
    assert len({*zip(shorter.tolist(), longer.tolist(), strict=True)}) == len(shorter)


def test_equal_differences_are_in_the_order_of_pictures_and_captions():
    shorter, longer = length_pairs(np.array([3, 1, 5, 3, 1, 1]), np.array([1, 1, 0, 0, 0, 2]), 10)
    assert [*zip(shorter.tolist(), longer.tolist(), strict=True)] == [(4, 2), (3, 2), (4, 3), (1, 0)]


@pytest.mark.parametrize("name", ["cosine", "order"])
def test_mean_ranks_are_those_of_loops(name):
    draw = np.random.default_rng(1)
    images, sentences = draw.integers(0, 4, (12, 5)).astype(float), draw.integers(0, 4, (36, 5)).astype(float)
    owner = np.repeat(np.arange(12), 3)
    texts = [" ".join(["word"] * int(length)) for length in draw.integers(1, 9, 36)]
    ranks = rank(sentences, images, owner, name).caption_to_image
    counts = np.array([len(text.split()) for text in texts])
    shorter, longer = length_pairs(counts, owner, 10)
    entry = lengths_entry(sentences, ranks, name, most=10, texts=texts, image_of_caption=owner)
    assert (entry["pairs"], entry["pictures"]) == (10, len({*owner[shorter]}))
    of = {
        "shorter": [plain_rank(name, sentences[row], images, [owner[row]]) for row in shorter],
        "longer": [plain_rank(name, sentences[row], images, [owner[row]]) for row in longer],
        "longer_for_shorter": [
            plain_rank(name, sentences[short], sentences, [long], [short])
            for short, long in zip(shorter, longer, strict=True)
        ],
    }
    for kind, values in of.items():
        assert entry[kind]["mean_rank"] == pytest.approx(sum(values) / 10)
        assert entry[kind]["median_rank"] == sum(sorted(values)[4:6]) / 2
    assert entry["shorter"]["words"] == pytest.approx(counts[shorter].mean())
    same = ["word"] * 36
    assert lengths_entry(sentences, ranks, name, most=10, texts=same, image_of_caption=owner) is None


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), (".", 0), ("A dog .", 2), ("two dogs' toys, here", 4), ("ein großes Ö", 3)]
)
def test_words_are_counted_without_punctuation(text, count):
    assert words(text) == count


@pytest.fixture
def several():
    """Seven pictures with two English and one German caption, but the last one, which has no German caption."""
    random = np.random.default_rng(3)
    owners = np.repeat(np.arange(7), 3)
    languages = ["en", "de", "en"] * 7
    del languages[19]
    owners = np.delete(owners, 19)
    pictures = random.normal(size=(7, 5))
    return pictures[owners] + 1.5 * random.normal(size=(20, 5)), pictures, owners, languages


def test_each_language_has_the_scores_of_its_captions_alone(several):
    sentences, pictures, owners, languages = several
    found = languages_entries(*several, "cosine")
    german = np.array(languages) == "de"
    assert found["language_de"] == score(sentences[german], pictures[:6], owners[german])
    assert found["language_en"] == score(sentences[~german], pictures, owners[~german])


def test_captions_across_languages_are_right_with_the_best_of_their_picture(several):
    sentences, _, owners, languages = several
    unit = sentences / np.linalg.norm(sentences, axis=1, keepdims=True)
    found = languages_entries(*several, "cosine")["across_languages"]
    for one, other in (("en", "de"), ("de", "en")):
        ranks = []
        for query in range(20):
            given = [row for row in range(20) if languages[row] == other]
            right = [unit[query] @ unit[row] for row in given if owners[row] == owners[query]]
            wrong = [unit[query] @ unit[row] for row in given if owners[row] != owners[query]]
            if languages[query] == one and right:
                ranks.append(1 + sum(value >= max(right) for value in wrong))
        entry = found[f"{one}-{other}"]
        assert entry["queries"] == len(ranks)
        assert entry["r1"] == pytest.approx(100 * np.mean([rank == 1 for rank in ranks]))
        assert entry["r5"] == pytest.approx(100 * np.mean([rank <= 5 for rank in ranks]))
        assert entry["mean_rank"] == pytest.approx(np.mean(ranks))


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


def test_recall_is_given_at_every_k_there_is():
    assert recall_rows(made([1, 2, 3, 3], [1, 3, 4])) == [(1, 25.0, 100 / 3), (2, 50.0, 100 / 3), (3, 100.0, 200 / 3)]


def test_ranks_are_counted_in_bins_that_double():
    rows = rank_rows(made([1, 1, 3, 9], [2, 4]))
    assert rows == [("1", 50.0, 0.0), ("2", 0.0, 50.0), ("3-4", 25.0, 50.0), ("5-8", 0.0, 0.0), ("9-16", 25.0, 0.0)]


def plain_precision(scores, right):
    """Average precision with each wrong picture before the right ones of its score."""
    order = sorted(range(len(scores)), key=lambda row: (-scores[row], row in right))
    ranks = [rank for rank, row in enumerate(order, start=1) if row in right]
    return np.mean([place / rank for place, rank in enumerate(ranks, start=1)]), ranks[0] == 1


@pytest.mark.parametrize("name", ["cosine", "dot", "order", "reversed_order"])
def test_short_queries_have_the_average_precision_of_a_plain_loop(name):
    draw = np.random.default_rng(1)
    images, vectors = draw.integers(0, 4, (30, 3)).astype(float), draw.integers(0, 4, (25, 3)).astype(float)
    right = [np.sort(draw.choice(30, draw.integers(3, 9), replace=False)) for _ in vectors]
    found = short_entry(vectors, images, right, name)
    plain = [plain_precision(np.round(scores_of(name, *pair), 9), set(own.tolist()))
             for pair, own in zip(((vector, images) for vector in vectors), right, strict=True)]  # fmt: skip
    precisions, first = np.transpose(plain)
    assert found["map"] == pytest.approx(100 * precisions.mean())
    assert found["map_ci95"] == pytest.approx(196 * precisions.std(ddof=1) / 5)
    assert found["first_right"] == pytest.approx(100 * first.mean())
    assert found["first_right_chance"] == pytest.approx(100 * np.mean([len(one) / 30 for one in right]))
    assert found["queries"] == 25


def test_short_queries_end_with_no_word_of_more_than_a_third_of_the_pictures():
    words = [f"{one}{other}" for one in "abcde" for other in "fghij"]
    texts = [f"un {word} dort {'la' if number < 25 else 'le'}" for number, word in enumerate(words * 3)]
    found = short_queries(texts, np.arange(75))
    assert [one.text for one in found["one_word"]] == ["la", *words]
    assert "two_words" not in found


def test_short_queries_are_frequent_runs_as_written_within_captions():
    words = [f"{one}{other}" for one in "abcde" for other in "fghij"]
    texts = ["a big dog , ends here", *(f"Big  dog {word} of the hill ." for word in words for _ in range(6))]
    texts += ["-"] * 400
    found = short_queries(texts, (np.arange(len(texts)) + 1) // 2)
    assert [one.text for one in found["one_word"]] == ["big", "dog", "hill", *words]
    assert [one.text for one in found["two_words"]] == ["big dog", *(f"dog {word}" for word in words)]
    assert [one.text for one in found["three_words"]] == [f"Big dog {word}" for word in words]
    assert found["one_word"][0].pictures.tolist() == list(range(76))
    assert found["two_words"][1].pictures.tolist() == [1, 2, 3]
    assert short_queries(texts[:124], np.arange(124)).keys() == {"one_word"}
    assert short_queries(texts[:40], np.arange(40)) == {}
