"""Training that starts from a saved encoder, through the stages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import small_encoder
from small_project import begin, write_corpus, write_pictures

from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import read_captions
from sightword.captions.vocabulary import UNKNOWN
from sightword.corpus.records import Caption
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.vse.selection.settings import SelectSettings
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import read_snapshots
from stages import select, train

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


@pytest.fixture
def project(tmp_path, monkeypatch):
    return begin(tmp_path, monkeypatch)


@pytest.mark.parametrize("model", [GRU, NGRAMS], ids=lambda model: model["cell"])
@pytest.mark.parametrize("similarity", ["cosine", "order"])
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


def test_a_rate_of_nearly_0_gives_the_embeddings_of_the_start_and_another_rate_others(project):
    start = put_start()
    for rate, near in ((1e-12, True), (0.05, False)):
        train.work(settings(start="seen", rate_min=rate, rate_max=rate))
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


def test_without_a_start_nothing_is_noted_of_starts(project):
    train.work(settings())
    assert not {"start", "encoders"} & read_snapshots("models/snapshots").training.keys()


@pytest.mark.parametrize(
    ("start", "wanted", "message"),
    [
        ({}, {"start": "sen"}, r"data/raw/pretrained/sen: start 'sen' is no folder of an encoder; expected seen"),
        ({"members": 2}, {}, r"data/raw/pretrained/seen: has 2 networks; expected one, to train on"),
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


def test_a_start_of_another_unit_is_refused(project):
    put_start()
    write_corpus(settings=CaptionsSettings(unit="word"))
    with pytest.raises(EncoderError, match=r"has captions\.unit character; expected captions\.unit word\. Set these"):
        train.work(settings(start="seen"))


def test_counted_ngrams_take_no_start():
    with pytest.raises(ValueError, match="cell tfidf is counted, not trained, so start must be null, not seen"):
        TrainSettings(cell="tfidf", start="seen")
