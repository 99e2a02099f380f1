"""Weighted n-grams, from the captions to retrieval: counted, without a side of pictures, and beside another encoder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_project import begin

from sightword.encoder.by_name import open_with_pictures
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.model.ngrams import Tfidf
from sightword.vse.selection.settings import EpochsSettings, SelectSettings
from sightword.vse.training.settings import TrainSettings
from stages import epochs, retrieval, select, train

SETTINGS = TrainSettings(cell="tfidf", embedding=64, longest_ngram=4, ngram_buckets=4096)
OTHER = TrainSettings(cell="ngrams", embedding=6, longest_ngram=3, ngram_buckets=64, batch=4, epochs=2, cycle=1)


@pytest.fixture
def project(tmp_path, monkeypatch):
    return begin(tmp_path, monkeypatch)


def outputs() -> dict[str, bytes]:
    found = (path for top in ("models", "plots", "metrics") for path in Path(top).rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found}


def test_the_encoder_is_counted_selected_and_left_out_of_retrieval(project, caplog):
    train.work(SETTINGS)
    select.work(SelectSettings(members=1))
    retrieval.work(RetrievalSettings(split="dev", protocols=["full", "querybank"]))
    epochs.work(EpochsSettings(tasks=[]))
    encoder = SentenceEncoder.load("models/encoder")
    assert (encoder.width, encoder.features_width, encoder.similarity_name) == (64, 0, "cosine")
    with pytest.raises(EncoderError, match="has no embeddings of pictures"):
        open_with_pictures("models/encoder")
    found = {path.stem: json.loads(path.read_text()) for path in Path("metrics").glob("*.json")}
    why = "the encoder has no embeddings of pictures"
    assert found["retrieval"] == {"dev": {"skipped": {"full": why, "querybank": why}}}
    assert f"retrieval: left out, since {why}" in caplog.text
    assert found["train"] == {"pictures": 8, "rejected_pictures": 0, "captions": 16, "parameters": 4096, "snapshots": 1}
    assert found["select"] == {"snapshots": 1, "members": 1, "chosen_epochs": "0"}
    assert Path("plots/epochs/epochs.tsv").read_text().splitlines()[1].split("\t")[:3] == ["0", "", ""]
    card = Path("models/encoder/README.md").read_text()
    assert "Nothing was trained, and no picture was seen" in card
    assert "R@10" not in card


def test_a_run_that_is_interrupted_leaves_nothing_and_ends_with_the_same_bytes(project, monkeypatch):
    train.work(SETTINGS)
    wanted = outputs()
    for top in ("models", "plots", "metrics"):
        shutil.rmtree(top)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tfidf, "count", stop)
        with pytest.raises(KeyboardInterrupt):
            train.work(SETTINGS)
    assert outputs() == {}
    train.work(SETTINGS)
    assert outputs() == wanted


def test_beside_an_encoder_it_changes_the_similarity_of_sentences_and_no_order_of_pictures(project):
    train.work(SETTINGS)
    select.work(SelectSettings(members=1))
    shutil.move("models/encoder", "data/raw/beside/floor")
    train.work(OTHER)
    select.work(SelectSettings(members=1))
    shutil.move("models/encoder", "alone")
    retrieval_settings = RetrievalSettings(split="dev")
    select.work(SelectSettings(members=1, beside=["floor"]))
    assert "Beside it `floor`" in Path("models/encoder/README.md").read_text()
    retrieval.work(retrieval_settings)
    both, alone, floor = map(SentenceEncoder.load, ("models/encoder", "alone", "data/raw/beside/floor"))
    beside = json.loads(Path("metrics/retrieval.json").read_text())
    shutil.rmtree("models/encoder")
    shutil.move("alone", "models/encoder")
    retrieval.work(retrieval_settings)
    assert json.loads(Path("metrics/retrieval.json").read_text()) == beside
    texts = ["red dog", "a red dog runs", "green cat"]
    features = np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32)
    assert (both.encode_images(features)[:, -64:] == 0).all()
    cosines = [each.similarity(each.encode(texts), each.encode(texts)) for each in (both, alone, floor)]
    np.testing.assert_allclose(cosines[0], (cosines[1] + cosines[2]) / 2, atol=1e-6)
    scores = [each.similarity(each.encode(texts), each.encode_images(features)) for each in (both, alone)]
    np.testing.assert_allclose(scores[0] * np.sqrt(2), scores[1], atol=1e-6)


@pytest.mark.parametrize("similarity", ["order", "reversed_order"])
def test_another_similarity_than_the_cosine_is_refused(similarity):
    with pytest.raises(ValueError, match="cell tfidf has no side of pictures, so similarity must be cosine, not"):
        TrainSettings(cell="tfidf", similarity=similarity)


def test_one_snapshot_is_all_there_is_to_select():
    from stages.system import conflicts

    values = {"train": SETTINGS.model_dump(), "select": SelectSettings(members=2).model_dump()}
    assert conflicts(values) == ["select.members = 2: there are 1 to choose from (train.cell: tfidf)"]
