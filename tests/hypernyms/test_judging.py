"""Scores and baselines, against plain loops and the counts of published splits."""

from __future__ import annotations

import numpy as np
import pytest
from exact_embedding import exact_embedding
from hypothesis import given
from hypothesis import strategies as st

from sightword.errors import EncoderError
from sightword.hypernyms.data.pairs import ConceptPairs, above_known, frequency, inferable
from sightword.hypernyms.data.settings import TaxonomySettings
from sightword.hypernyms.data.split import split
from sightword.hypernyms.data.taxonomy import read_scenes, read_wordnet
from sightword.hypernyms.judging.measuring import groups, judge
from sightword.hypernyms.training.concepts import Concepts


def pairs_of(rows):
    low, high, labels, direct, replaced = (np.array(column) for column in zip(*rows, strict=True))
    return ConceptPairs(low.astype(np.int32), high.astype(np.int32), labels, direct, replaced.astype(np.int8))


def test_the_parts_of_the_accuracy():
    pairs = pairs_of(
        [
            (0, 1, True, True, 0),
            (0, 2, True, False, 0),
            (1, 2, True, True, 0),
            (2, 0, False, False, 1),
            (1, 0, False, False, 2),
        ]
    )
    found = judge(np.array([0.1, 0.2, 3.0, 0.3, 2.0]), pairs, np.array([False, True, False, False, False]), 1.0)
    expected = {
        "accuracy": 60.0, "true_right": 200 / 3, "false_right": 50.0, "f1": 200 * 2 / 6, "direct": 50.0,
        "direct_pairs": 2, "indirect": 100.0, "inferable": 100.0, "not_inferable": 50.0,
        "hyponym_replaced": 0.0, "hypernym_replaced": 100.0,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert found["accuracy_ci95"] == pytest.approx([23.0720, 88.2382], abs=1e-4)
    assert groups(np.array([0.1, 3.0, 0.2]), np.array([True, True, False]), np.array([1, 1, 2]), 1.0) == [
        (1, 50.0, 2),
        (2, 0.0, 1),
    ]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=20))
def test_what_follows_from_known_pairs(edges):
    edges = [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]] or [(0, 1)]
    reached = np.zeros((8, 8), bool)
    reached[tuple(np.array(edges).T)] = True
    for _ in range(8):
        reached |= reached @ reached
    known = pairs_of([(low, high, True, True, 0) for low, high in edges])
    asked = pairs_of([(low, high, True, True, 0) for low in range(8) for high in range(8)])
    assert (inferable(asked, above_known([known], 8)) == reached.ravel()).all()
    count = [sum(high == other for _, high in edges) for other in range(8)]
    assert (-frequency(asked, known, 8)).reshape(8, 8).tolist() == [count] * 8


@pytest.mark.full
@pytest.mark.parametrize(("name", "right", "often"), [("unique", 7541, 76.9), ("released", 7049, 72.4)])
def test_the_baselines_on_the_given_splits(real_data, name, right, often):
    from sightword.evaluation.binary import best_threshold

    taxonomy = read_wordnet(real_data / "wordnet", ("hypernym", "instance_hypernym"))
    lists = {f"{part}_pairs": f"split-{name}/{part}.tsv" for part in ("dev", "test")}
    rows = {"closure": "paths", "negatives": "as_drawn"} if name == "released" else {}
    pairs, _ = split(taxonomy, TaxonomySettings(lists=str(real_data / "hypernyms"), **lists, **rows))
    count = len(taxonomy.names)
    found = inferable(pairs["test"], above_known([pairs["train"], pairs["dev"]], count))
    assert (found == pairs["test"].labels).sum() == right
    cut, _ = best_threshold(frequency(pairs["dev"], pairs["train"], count), pairs["dev"].labels)
    accepted = frequency(pairs["test"], pairs["train"], count) <= cut
    assert 100 * (accepted == pairs["test"].labels).mean() == pytest.approx(often, abs=0.1)


@pytest.fixture(scope="module")
def exact(repository):
    """The sample's taxonomy, and its exact embedding."""
    folder = repository / "data/raw/sample"
    taxonomy = read_scenes(folder)
    vectors = exact_embedding(taxonomy)
    settings = {"energy": "order", "dimension": vectors.shape[1], "margin": 1.0, "slack": 0.0}
    return taxonomy, Concepts(taxonomy.names, taxonomy.words, vectors, {}, 0.5, settings)


def test_the_exact_embedding_scores_100(exact):
    taxonomy, concepts = exact
    pairs, _ = split(taxonomy, TaxonomySettings(format="sample", path="x", dev=500, test=500))
    test = pairs["test"]
    found = judge(concepts.scores(test.hyponyms, test.hypernyms), test, test.labels, concepts.threshold)
    assert (found["accuracy"], found["f1"], found["auc"], found["average_precision"]) == (100, 100, 1, 1)


def test_saved_concepts_are_read(exact, tmp_path):
    _, concepts = exact
    concepts.save(tmp_path)
    once = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    found = Concepts.load(tmp_path)
    found.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == once
    assert found.is_a("red_circle", "red")
    assert not found.is_a("red", "red_circle")
    assert found.energy([("red_circle", "red"), ("red", "blue_circle")]).tolist() == [0, 2]
    assert found.hypernyms("red_circle_sea", top=7)[:3] == [("red_circle", 0), ("red_sea", 0), ("circle_sea", 0)] or (
        {name for name, _ in found.hypernyms("red_circle_sea", top=7)}
        == {"red_circle", "red_sea", "circle_sea", "red", "circle", "sea", "scene"}
    )
    assert found.hypernyms("red_circle_sea", top=7)[-1][0] == "scene"
    assert found.find("Red Circle") == ["red_circle"]
    for call in (lambda: found.is_a("redd", "red"), lambda: found.find("redd")):
        with pytest.raises(EncoderError, match="did you mean 'red'"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda found: found.find(5), "the word is int; expected a text"),
        (lambda found: found.is_a(5, "red"), r"the name is int; expected a text, such as dog\.n\.01"),
        (lambda found: found.hypernyms("red", top="x"), "top is 'x'; expected a whole number above 0"),
        (lambda found: found.hypernyms("red", top=0), "top is 0; expected a whole number above 0"),
    ],
)
def test_wrong_arguments_are_one_message(exact, call, message):
    with pytest.raises(EncoderError, match=message):
        call(exact[1])


def test_a_folder_without_concepts_says_what_makes_them(tmp_path):
    with pytest.raises(EncoderError, match=r"has no concepts \(concepts.json is missing\).* `dvc checkout"):
        Concepts.load(tmp_path)
