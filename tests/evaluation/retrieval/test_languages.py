"""Retrieval by language and across languages, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from sightword.evaluation.retrieval.measuring import languages_entries
from sightword.evaluation.retrieval.protocols import score
from sightword.vse.page.tables import across_languages, retrieval


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


def test_an_encoder_without_pictures_has_the_same_recalls_across_languages(several):
    sentences, _, *others = several
    whole = languages_entries(*several, "cosine")
    assert languages_entries(sentences, None, *others, "cosine") == {"across_languages": whole["across_languages"]}


def test_captions_of_one_language_have_no_entries(several):
    sentences, pictures, owners, _ = several
    assert languages_entries(sentences, pictures, owners, [], "cosine") == {}
    assert languages_entries(sentences, pictures, owners, ["de"] * 20, "cosine") == {}


def test_the_page_has_a_table_for_each_language_and_one_across(several):
    metrics = {"test": languages_entries(*several, "cosine")}
    assert list(retrieval(metrics, {}, with_published=False)) == [
        ("test", "captions in de"),
        ("test", "captions in en"),
    ]
    assert [row.name for row in across_languages(metrics)["test"].rows] == ["de to en", "en to de"]
