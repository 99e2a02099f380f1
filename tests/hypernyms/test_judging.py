"""Scores and baselines against plain loops and published counts; the stages on a small sample; saved concepts."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from checkout import Checkout
from hypothesis import given
from hypothesis import strategies as st
from pages_read import check_text

from pipeline.pipelines import Pipeline
from sightword.errors import EncoderError
from sightword.hypernyms.data.pairs import ConceptPairs, frequency, inferable, split
from sightword.hypernyms.data.taxonomy import ROOT, Taxonomy, read_scenes, read_wordnet
from sightword.hypernyms.judging import judge
from sightword.hypernyms.settings import EmbedSettings, HypernymsSettings, TaxonomySettings
from sightword.hypernyms.training.concepts import Concepts
from stages.hypernyms import evaluate, taxonomy, train


def exact_embedding(taxonomy: Taxonomy) -> np.ndarray:
    """Return (concepts, words) vectors with order energy 0 for true pairs and at least 1 for all others.

    Each word has one dimension, which is 1 where the description has the word.
    """
    words = [set() if name == ROOT else set(name.split("_")) for name in taxonomy.names]
    return np.array([[word in own for word in sorted(set().union(*words))] for own in words], np.float32)


def pairs_of(rows):
    low, high, labels, direct, replaced = (np.array(column) for column in zip(*rows, strict=True))
    return ConceptPairs(low.astype(np.int32), high.astype(np.int32), labels, direct, replaced.astype(np.int8))


def test_the_parts_of_the_accuracy():
    pairs = pairs_of([(0, 1, True, True, 0), (0, 2, True, False, 0), (1, 2, True, True, 0),
                      (2, 0, False, False, 1), (1, 0, False, False, 2)])  # fmt: skip
    found = judge(np.array([0.1, 0.2, 3.0, 0.3, 2.0]), pairs, np.array([False, True, False, False, False]), 1.0)
    expected = {
        "accuracy": 60.0, "true_right": 200 / 3, "false_right": 50.0, "f1": 200 * 2 / 6, "direct": 50.0,
        "direct_pairs": 2, "indirect": 100.0, "inferable": 100.0, "not_inferable": 50.0,
        "hyponym_replaced": 0.0, "hypernym_replaced": 100.0,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert found["accuracy_ci95"] == pytest.approx([23.0720, 88.2382], abs=1e-4)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=20))
def test_what_follows_from_known_pairs(edges):
    edges = [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]] or [(0, 1)]
    reached = np.zeros((8, 8), bool)
    reached[tuple(np.array(edges).T)] = True
    for _ in range(8):
        reached |= reached @ reached
    known = pairs_of([(low, high, True, True, 0) for low, high in edges])
    asked = pairs_of([(low, high, True, True, 0) for low in range(8) for high in range(8)])
    assert (inferable(asked, [known], 8) == reached.ravel()).all()
    count = [sum(high == other for _, high in edges) for other in range(8)]
    assert (-frequency(asked, known, 8)).reshape(8, 8).tolist() == [count] * 8


@pytest.mark.full
@pytest.mark.parametrize(("name", "right", "often"), [("unique", 7541, 76.9), ("released", 7049, 72.4)])
def test_the_baselines_on_the_given_splits(real_data, name, right, often):
    from sightword.evaluation.binary import best_threshold

    wordnet = read_wordnet(real_data / "wordnet", ("hypernym", "instance_hypernym"))
    lists = {f"{part}_pairs": f"split-{name}/{part}.tsv" for part in ("dev", "test")}
    rows = {"closure": "paths", "negatives": "as_drawn"} if name == "released" else {}
    pairs, _ = split(wordnet, TaxonomySettings(lists=str(real_data / "hypernyms"), **lists, **rows))
    count = len(wordnet.names)
    found = inferable(pairs["test"], [pairs["train"], pairs["dev"]], count)
    assert (found == pairs["test"].labels).sum() == right
    cut, _ = best_threshold(frequency(pairs["dev"], pairs["train"], count), pairs["dev"].labels)
    accepted = frequency(pairs["test"], pairs["train"], count) <= cut
    assert 100 * (accepted == pairs["test"].labels).mean() == pytest.approx(often, abs=0.1)


@pytest.fixture(scope="module")
def exact(repository):
    """The sample's taxonomy, and its exact embedding."""
    folder = repository / "data/raw/sample"
    scenes = read_scenes(folder)
    vectors = exact_embedding(scenes)
    settings = {"energy": "order", "dimension": vectors.shape[1], "margin": 1.0, "slack": 0.0}
    return scenes, Concepts(scenes.names, scenes.words, vectors, {}, 0.5, settings)


def test_the_exact_embedding_scores_100(exact):
    scenes, concepts = exact
    pairs, _ = split(scenes, TaxonomySettings(format="sample", path="x", dev=500, test=500))
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
    *above, last = [name for name, _ in found.hypernyms("red_circle_sea", top=7)]
    assert (set(above), last) == ({"red_circle", "red_sea", "circle_sea", "red", "circle", "sea"}, "scene")
    assert found.find("Red Circle") == ["red_circle"]
    for call in (lambda: found.is_a("redd", "red"), lambda: found.find("redd")):
        with pytest.raises(EncoderError, match="did you mean 'red'"):
            call()


def test_a_folder_without_concepts_says_what_makes_them(tmp_path):
    with pytest.raises(EncoderError, match=r"has no concepts \(concepts.json is missing\).* `dvc checkout"):
        Concepts.load(tmp_path)


EMBED = EmbedSettings(dimension=10, epochs=2, batch=100, rate=0.03)


def run_all(folder, monkeypatch, repository):
    monkeypatch.chdir(folder)
    sample = TaxonomySettings(format="sample", path=str(repository / "data/raw/sample"), dev=300, test=300)
    taxonomy.work(sample)
    train.work(EMBED)()
    evaluate.work(HypernymsSettings())


@pytest.fixture(scope="module")
def done(tmp_path_factory, repository):
    folder = tmp_path_factory.mktemp("hypernyms")
    with pytest.MonkeyPatch.context() as patch:
        run_all(folder, patch, repository)
    return folder


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_inputs_give_the_same_bytes(done, tmp_path, monkeypatch, repository):
    monkeypatch.setenv("SIGHTWORD_THREADS", "2")
    run_all(tmp_path, monkeypatch, repository)
    assert files(tmp_path) == files(done)


def test_the_metrics(done):
    found = json.loads((done / "metrics/hypernyms/evaluate.json").read_text())
    own = found["test"]["order"]
    assert 70 < own["accuracy"] < 100
    assert own["pairs"] == 600
    assert own["direct_pairs"] + own["indirect_pairs"] == 300
    assert found["test"]["closure"]["direct"] == found["dev"]["closure"]["direct"] == 0
    assert found["test"]["closure"]["false_right"] == 100
    assert found["dev"]["order"]["threshold"] == own["threshold"]
    summary = json.loads((done / "metrics/hypernyms/summary.json").read_text())
    assert summary["accuracy"] == own["accuracy"]
    embedding = json.loads((done / "metrics/hypernyms/train.json").read_text())
    assert found["dev"]["order"]["accuracy"] == pytest.approx(embedding["dev"], abs=1e-3)
    assert (embedding["batches"], embedding["parameters"]) == (2 * 681, 33000)


def test_the_mistakes_are_wrong_and_the_worst_first(done):
    concepts = Concepts.load(done / "models/hypernyms/concepts")
    rows = pq.read_table(done / "data/hypernyms/scores/mistakes.parquet").to_pylist()
    assert 0 < len(rows) <= 50
    for row in rows:
        assert concepts.is_a(row["hyponym"], row["hypernym"]) != row["label"]
        assert row["hyponym_gloss"].startswith("a scene with")
    scores = pq.read_table(done / "data/hypernyms/scores/scores.parquet").to_pandas()
    own = json.loads((done / "metrics/hypernyms/evaluate.json").read_text())["test"]["order"]
    assert 100 * (scores["accepted"] == scores["label"]).mean() == pytest.approx(own["accuracy"], abs=1e-5)
    distances = [abs(row["energy"] - concepts.threshold) for row in rows]
    assert distances == sorted(distances, reverse=True)


def test_the_page_needs_nothing_else(done):
    text = (done / "report/hypernyms/index.html").read_text()
    check_text(text)
    for part in ("By type of pair", "direct edges", "closure", "ceiling", "Wrong pairs", "No published split"):
        assert part in text, part
    assert (text.count("<svg"), text.count('class="spark"')) == (5, 2)
    assert not re.findall(r'(?:src|href)="(?!#)', text)


@pytest.mark.full
def test_hypernyms_alone_in_a_fresh_clone(repository, tmp_path):
    clone = Checkout(repository, tmp_path / "clone", tmp_path / "store")
    clone.change("hypernyms/params.yaml", train__epochs=2, train__validate_every=20)
    clone.run("sh", "-c", Pipeline(clone.folder, "hypernyms").command)
    assert json.loads((clone.folder / "metrics/hypernyms/summary.json").read_text())["accuracy"] > 70
    assert (clone.folder / "report/hypernyms/index.html").is_file()
    assert "Data and pipelines are up to date" in clone.run("dvc", "repro", "hypernyms/dvc.yaml").stdout
    assert not (clone.folder / "models/encoder").exists()  # the first pipeline has not run
    clone.run("git", "add", "-A")
    clone.run("git", "commit", "-qm", "hypernyms")
    audited = json.loads(clone.run("sightword", "audit", "metrics/hypernyms/summary.json:accuracy", "--json").stdout)
    assert {stage["record"]["verdict"] for stage in audited["stages"]} == {"run recorded"}
