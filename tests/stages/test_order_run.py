"""Words and the order similarity, from the captions to the retrieval scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_project import begin

from sightword import score
from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import read_captions
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.features.tables.pairs import pair
from sightword.features.tables.table import read_features
from sightword.statistics.inference import rounded
from sightword.vse.selection.settings import SelectSettings
from sightword.vse.training.settings import TrainSettings
from stages import retrieval, select, train


@pytest.mark.parametrize("similarity", ["order", "reversed_order"])
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
    assert found["dev"].keys() == {"full"}
    assert found["dev"]["full"] == rounded(wanted)
    assert json.loads(Path("metrics/select.json").read_text())["best_score"] == rounded(
        wanted["caption_to_image"]["rsum"]
    )
