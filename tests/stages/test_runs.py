"""Kinds of runs, from the captions to the scores: orders and words, a start from an encoder, counted n-grams."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import small_encoder
from small_project import begin, write_corpus, write_pictures

from sightword import score
from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import read_captions
from sightword.captions.vocabulary import UNKNOWN
from sightword.corpus.records import Caption
from sightword.encoder.by_name import open_with_pictures
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.features.tables.pairs import pair
from sightword.features.tables.table import read_features
from sightword.statistics.inference import rounded
from sightword.vse.selection.settings import EpochsSettings, SelectSettings
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import read_snapshots
from stages import epochs, retrieval, select, train


@pytest.mark.parametrize("similarity", ["reversed_order"])
def test_an_encoder_trained_by_an_order_is_selected_and_scored_by_it(tmp_path, monkeypatch, similarity):
    begin(tmp_path, monkeypatch, CaptionsSettings(unit="word"))
    train.work(
        TrainSettings(
            embedding=4, hidden=6, bidirectional=False, pooling="last", similarity=similarity, reduction="sum",
            margin=0.05, batch=4, captions_per_epoch="one", schedule="step", epochs=3, cycle=1, rate_max=0.01,
            clip_images=2.0, clip_captions=2.0,
        )
    )  # fmt: skip
    select.work(SelectSettings(members=1, criterion="caption_to_image_rsum"))
    retrieval.work(RetrievalSettings(split="dev", protocols=["full"]))

    encoder = SentenceEncoder.load("models/encoder")
    assert encoder.similarity_name == similarity
    assert encoder.vocabulary.tokens == ("cat", "dog", "green", "red", "runs")
    dev = pair(read_features("data/features/features.h5"), read_captions("data/captions/captions.parquet"), "dev")
    images, captions = encoder.encode_images(dev.features), encoder.encode(dev.texts)
    assert (images >= 0).all()
    assert (captions >= 0).all()
    wanted = score(captions, images, dev.image_of_caption, similarity)
    found = json.loads(Path("metrics/retrieval.json").read_text())
    assert found.keys() == {"dev"}
    assert found["dev"].keys() == {"full", "skipped"}
    assert found["dev"]["full"] == rounded(wanted)
    assert json.loads(Path("metrics/select.json").read_text())["best_score"] == rounded(
        wanted["caption_to_image"]["rsum"]
    )


GRU = {"cell": "gru", "embedding": 5, "hidden": 6, "attention": 4}


NGRAMS = {"cell": "ngrams", "embedding": 7, "longest_ngram": 3, "ngram_buckets": 50}


TEXTS = ["red dog", "a cat in the snow"]


def settings(**values):
    return TrainSettings(batch=4, epochs=1, cycle=1, snapshots="epoch", **(GRU | values))


def put_start(members=1, **model):
    """Save an untrained encoder, whose vocabulary is not that of the captions, as data/raw/pretrained/seen."""
    encoder = small_encoder.made(small_encoder.ModelSettings(**(GRU | model)), members=members)
    encoder.save("data/raw/pretrained/seen")
    return encoder


@pytest.mark.parametrize(("model", "similarity"), [(GRU, "cosine"), (NGRAMS, "order")])
def test_captions_begin_with_the_vocabulary_and_weights_of_the_start_and_pictures_at_random(project, model, similarity):
    start = put_start(**model)
    maps = []
    for seed in (0, 1):
        train.work(settings(**model, similarity=similarity, start="seen", seed=seed))
        found = read_snapshots("models/snapshots")
        assert found.vocabulary == start.vocabulary
        before = found.load(0)
        for name, value in start.leaves[0].captions.state_dict().items():
            assert (before.captions.state_dict()[name] == value).all(), name
        maps.append(before.images.linear.weight)
    assert (maps[0] != maps[1]).any()


@pytest.mark.parametrize("model", [GRU, NGRAMS])
def test_a_rate_of_nearly_0_gives_the_embeddings_of_the_start_and_another_rate_others(project, model):
    start = put_start(**model)  # its n-grams lack the frame, as those of old encoders do
    for rate, near in ((1e-12, True), (0.05, False)):
        train.work(settings(**model, start="seen", rate_min=rate, rate_max=rate))
        select.work(SelectSettings(members=1))
        found = SentenceEncoder.load("models/encoder")
        assert (np.abs(found.encode(TEXTS) - start.encode(TEXTS)).max() < 1e-5) == near
        assert found.notes["training"]["start"] == "seen"
        assert found.vocabulary == start.vocabulary


def test_select_measures_dev_as_training_did_by_the_vocabulary_of_the_start(project):
    put_start()
    train.work(settings(start="seen"))
    select.work(SelectSettings(members=1))
    known = Path("metrics/select.json").read_text()
    write_pictures(range(13))  # another file of features, of the same pictures and more: dev is measured again
    select.work(SelectSettings(members=1))
    assert Path("metrics/select.json").read_text() == known


@pytest.mark.parametrize("beside", [[], ["a zebra", "zebras", "one quay", "a quay"]])
def test_characters_that_the_start_does_not_know_are_reported(project, caplog, beside):
    """Those of captions beside too, which are read by its vocabulary."""
    write_corpus(beside=[Caption(f"other{place // 2}", str(place % 2), text) for place, text in enumerate(beside)])
    put_start()
    train.work(settings(start="seen", beside_batch=2 if beside else 0))
    assert json.loads(Path("metrics/train.json").read_text()).get("captions_beside", 0) == len(beside)
    known = SentenceEncoder.load("data/raw/pretrained/seen").vocabulary
    text = "".join([*read_captions(train.CAPTIONS).split("train").texts, *beside])
    unknown = sum(known.encode(letter) == [UNKNOWN] for letter in text)
    assert 0 < unknown < len(text)
    assert f"the vocabulary of the start seen lacks {unknown} of the {len(text)} characters" in caplog.text


@pytest.mark.parametrize(
    ("start", "wanted", "message"),
    [
        ({}, {"start": "sen"}, r"data/raw/pretrained/sen: start 'sen' is no folder of an encoder; expected seen"),
        ({}, {"start": "../seen"}, r"start '\.\./seen' is no folder of an encoder; expected seen"),
        (
            {},
            {"hidden": 9},
            r"data/raw/pretrained/seen: has train\.hidden 6; expected train\.hidden 9\. Set these parameters to ",
        ),
        (
            NGRAMS,
            {"embedding": 7},
            r"has train\.cell ngrams, train\.longest_ngram 3, .*; expected train\.attention 4, .* train\.cell gru, ",
        ),
    ],
)
def test_a_start_that_does_not_fit_is_refused_before_any_output(project, start, wanted, message):
    put_start(**start)
    with pytest.raises(EncoderError, match=message):
        train.work(settings(**({"start": "seen"} | wanted)))
    assert not Path("models").exists()


COUNTED = TrainSettings(cell="tfidf", embedding=64, longest_ngram=4, ngram_buckets=4096)


OTHER = TrainSettings(cell="ngrams", embedding=6, longest_ngram=3, ngram_buckets=64, batch=4, epochs=2, cycle=1)


@pytest.fixture
def project(tmp_path, monkeypatch):
    return begin(tmp_path, monkeypatch)


def test_the_encoder_is_counted_selected_and_left_out_of_retrieval(project, caplog):
    train.work(COUNTED)
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


def test_beside_an_encoder_it_changes_the_similarity_of_sentences_and_no_order_of_pictures(project):
    train.work(COUNTED)
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
