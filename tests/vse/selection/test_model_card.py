"""The model card beside an encoder."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from small_card import head, made
from small_project import begin

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.statistics.inference import with_interval
from sightword.vse.selection.model_card import model_card
from sightword.vse.selection.settings import SelectSettings
from sightword.vse.training.settings import TrainSettings
from stages import select, train


def card(**change) -> str:
    choice, amount = made(**change)
    return model_card(choice, SelectSettings(), amount)


def test_its_head_is_yaml_with_the_scores_on_dev():
    choice, amount = made()
    found = head(model_card(choice, SelectSettings(), amount))
    assert found["library_name"] == "sentence-transformers"
    assert found["pipeline_tag"] == "sentence-similarity"
    assert {"character-level", "gru"} <= set(found["tags"])
    result = found["model-index"][0]["results"][0]
    assert result["dataset"]["split"] == "dev"
    values = {(metric["type"], metric["name"].split(", ")[1]): metric["value"] for metric in result["metrics"]}
    for direction, words in (("caption_to_image", "caption to picture"), ("image_to_caption", "picture to caption")):
        for k in (1, 5, 10):
            assert values[f"recall_at_{k}", words] == pytest.approx(choice.ensemble[direction][f"r{k}"], abs=1e-4)


def test_card_tells_scores_data_start_vocabulary_and_languages():
    choice, amount = made()
    text = model_card(choice, SelectSettings(), amount)
    entry = choice.ensemble["image_to_caption"]
    line = next(line for line in text.splitlines() if line.startswith("| picture to caption"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:4] == [with_interval(entry[f"r{k}"], entry[f"r{k}_ci95"]) for k in (1, 5, 10)]
    for said in ("8 (63.5), 4 (61.2)", "Trained on 40 captions of 20 pictures", "resnet152, IMAGENET1K_V1"):
        assert said in text
    assert re.search(r"It knows \d+ characters; others count as unknown. It has learned the language of its c", text)
    assert "started from" not in text
    assert "For demonstration only" not in text
    assert "say\n> nothing about the method" in card(features={"backbone": "shufflenet", "weights": "random:0"})
    assert "It started from the encoder `seen`" in card(training={"start": "seen"})
    words = card(unit="word")
    assert re.search(r"It knows \d+ words;", words)
    assert head(words)["tags"][5] == "word-level"
    text = model_card(choice, SelectSettings(), replace(amount, languages=("de", "en")))
    assert "It has learned the languages of its captions (de, en) and no other." in text


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder with small tables of captions and features."""
    begin(tmp_path, monkeypatch)


@pytest.mark.usefixtures("small")
def test_the_stage_writes_it_beside_the_encoder_the_same_each_time():
    train.work(TrainSettings(embedding=4, hidden=3, attention=4, batch=4, epochs=2, cycle=1))
    texts = []
    for _ in range(2):
        select.work(SelectSettings(members=2))
        texts.append(Path("models/encoder/README.md").read_bytes())
    assert texts[0] == texts[1]
    assert b"Trained on 16 captions of 8 pictures." in texts[0]  # the other 4 of 12 are dev
    assert head(texts[0].decode())["library_name"] == "sentence-transformers"
    assert SentenceEncoder.load("models/encoder").encode("a dog").shape == (6,)
    assert "beside" not in json.loads(Path("metrics/select.json").read_text())
    shutil.copytree("models/encoder", "data/raw/beside/first")
    select.work(SelectSettings(members=1, beside=["first"]))
    text = Path("models/encoder/README.md").read_text()
    assert "- Beside it `first`, of another training run (seed 0; epochs 2, 1; " in text
    assert "bidirectional GRU with 3 states a direction" in text
    assert json.loads(Path("metrics/select.json").read_text())["beside"] == "first"
    assert SentenceEncoder.load("models/encoder").encode("a dog").shape == (12,)
