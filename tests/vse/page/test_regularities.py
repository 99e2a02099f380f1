"""Composition and abstraction on the page of order-embeddings, and queries of two attributes."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from finished_run import write_encoder

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.features.tables.table import Origin, write_features
from sightword.report import gallery
from sightword.report.drawing import Drawing
from sightword.report.tables import Row
from sightword.vse.page import page, regularities, retrieval_table
from sightword.vse.page.settings import ReportSettings


@pytest.fixture
def order_run(run_folder, tmp_path, request):
    """A run with an encoder of some similarity, and features of its pictures."""
    similarity = getattr(request, "param", "order")
    write_encoder(run_folder.encoder, similarity=similarity, pooling="last", bidirectional=False)
    ids = sorted(gallery.read_captions(run_folder.captions, ["test"]).first)
    values = np.random.default_rng(0).normal(size=(len(ids) + 1, 6)).astype(np.float32)
    origin = Origin("b", "p", "w", "", "{}", "fp32", "extracted")
    names = [*ids, "train-0.png"]
    write_features(run_folder.features, names, [""] * len(names), 6, [(np.arange(len(names)), values)], origin)
    return run_folder, dict(zip(names, values, strict=True))


@pytest.mark.parametrize("order_run", ["order", "reversed_order"], indirect=True)
def test_the_nearest_pictures_are_those_of_a_plain_loop(order_run):
    places, features = order_run
    captions = gallery.read_captions(places.captions, ["test"])
    found = regularities.read(places, captions, number=5, thumbnail=64)
    encoder = SentenceEncoder.load(places.encoder)
    order = encoder.similarity_name == "order"
    assert (found.composing, found.abstracting) == (("maximum", "minimum") if order else ("minimum", "maximum"))
    pictures = {image_id: encoder.encode_images(features[image_id]).astype(float) for image_id in captions.first}
    assert len(found.examples) == 5
    kinds = [[operand.position for operand in example.operands] for example in found.examples]
    assert kinds == [[0, 1], [0, 0], [1, 1], [0, 1], [0, 0]]
    asked = [operand.image_id for example in found.examples for operand in example.operands]
    assert len(set(asked)) == 10
    for example in found.examples:
        vectors = [pictures[one.image_id] if one.position else encoder.encode(one.text) for one in example.operands]
        own = {one.image_id for one in example.operands if one.position}
        larger, smaller = np.max(vectors, axis=0), np.min(vectors, axis=0)
        for query, answers in ((larger, example.composed if order else example.abstracted),
                               (smaller, example.abstracted if order else example.composed)):  # fmt: skip
            sign = 1 if order else -1
            penalty = {name: (np.maximum(sign * (query - row), 0) ** 2).sum() for name, row in pictures.items()}
            nearest = sorted(penalty.keys() - own, key=lambda name: (np.float32(penalty[name]), name))[:5]
            assert [answer.image_id for answer in answers] == nearest
            assert [answer.position for answer in answers] == [1, 2, 3, 4, 5]
            assert all(answer.thumbnail for answer in answers)


def test_the_page_shows_them_and_a_smaller_number_ends_the_list(order_run, tmp_path, monkeypatch):
    places, _ = order_run
    monkeypatch.setattr(Drawing, "in_page", lambda drawing: "<svg></svg>")
    for number in (4, 0):
        page.write(places, ReportSettings(gallery=0, attention=0, regularities=number), tmp_path / "index.html")
        text = (tmp_path / "index.html").read_text()
        assert text.count('<article class="query regularity">') == number
        assert text.count("<h4>Composition</h4>") == number
        assert ('href="#regularities"' in text) == bool(number)
        assert ("the elementwise maximum of two embeddings" in re.sub(r"\s+", " ", text)) == bool(number)


def test_an_encoder_without_an_order_needs_no_features(run_folder):
    captions = gallery.read_captions(run_folder.captions, ["test"])
    assert regularities.read(run_folder, captions, number=3, thumbnail=64) is None
    assert not run_folder.features.exists()


def test_few_pictures_give_few_pairs():
    texts = {("a", 0): "a dog", ("b", 0): "a cat on a mat", ("c", 1): "snow", ("d", 0): "a red ball"}
    captions = gallery.Captions(texts)
    chosen = regularities.choose(captions, ["a", "b", "c", "d"], 5)
    assert len(chosen) == 2
    assert len({image_id for pair in chosen for image_id, _ in pair}) == 4
    assert regularities.choose(captions, ["a"], 5) == []
    assert regularities.choose(gallery.Captions(), [], 5) == []


@pytest.mark.parametrize(
    ("similarity", "first", "rows"),
    [
        ("order", "elementwise maximum, compared by the order", 4),
        ("reversed_order", "elementwise minimum, compared by the reversed order", 4),
        ("dot", "sum, compared by the dot product", 4),
        ("cosine", "sum, compared by the cosine", 3),
    ],
)
def test_queries_of_two_attributes_have_a_table(similarity, first, rows):
    recalls = {"r1": 12.34, "r5": 50.0, "r10": 100.0}
    entry = {"queries": 7, **dict.fromkeys(("composed", "sum", "alone", "chance"), recalls)}
    (found,) = retrieval_table.compositions({"test": {"full": {}, "composition": entry}}, similarity)
    assert (found.split, found.queries, len(found.table.rows)) == ("test", 7, rows)
    assert found.table.rows[0] == Row(first, ["12.3", "50.0", "100.0"], "ours")
    assert retrieval_table.compositions({"test": {"full": {}}}, similarity) == []


def test_the_table_of_two_attributes_is_on_the_page_with_its_history(run_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Drawing, "in_page", lambda drawing: "<svg></svg>")
    path = run_folder.metrics / "retrieval.json"
    recalls = {"r1": 12.5, "r5": 50.0, "r10": 75.0}
    entry = {"queries": 7, **dict.fromkeys(("composed", "sum", "alone", "chance"), recalls)}
    path.write_text(json.dumps({"test": {**json.loads(path.read_text())["test"], "composition": entry}}))
    page.write(run_folder, ReportSettings(gallery=0, attention=0), tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text()
    assert "test: two attributes as one query" in text
    assert "<td>12.5</td><td>50.0</td><td>75.0</td>" in text
    assert "sightword audit metrics/retrieval.json:test.composition.composed.r10" in text
    assert "sightword audit metrics/retrieval.json:test.full.caption_to_image.r10" in text
