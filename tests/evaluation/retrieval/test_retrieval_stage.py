from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sightword.captions.table import CaptionTable, read_captions, write_captions
from sightword.encoder import arguments, sentence_encoder
from sightword.errors import CaptionsError, ScoringError
from sightword.evaluation.ledger import digest
from sightword.evaluation.retrieval.measuring import NO_SHORT
from sightword.evaluation.retrieval.protocols import score
from sightword.evaluation.retrieval.querybank import with_querybank
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.features.tables.table import Origin, write_features
from sightword.io.files import write_text
from sightword.statistics.inference import rounded
from stages import retrieval

PICTURES = 12


def embedded(sentences):
    return np.stack([np.roll(np.linspace(1, 0, PICTURES), int(text.split()[-1])) for text in sentences])


class StandIn:
    """Encodes captions as the picture they name, with some noise."""

    similarity_name = "cosine"
    width = features_width = PICTURES

    @classmethod
    def load(cls, folder, *, device):
        return cls()

    def encode(self, sentences, *, batch_size, show_progress_bar, max_length):
        assert max_length == arguments.LONGEST  # no caption of a corpus is too long
        return embedded(sentences)

    def encode_images(self, features):
        return features


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sentence_encoder, "SentenceEncoder", StandIn)
    ids = [f"p{number:02}.jpg" for number in range(PICTURES)]
    images = [image_id for image_id in ids for _ in range(2)]
    table = CaptionTable(
        images,
        [0, 1] * PICTURES,
        ["train" if image_id == "p03.jpg" else "test" for image_id in images],
        [f"picture {int(image_id[1:3]) + number}" for image_id in ids for number in (0, 1)],
        [np.array([2], np.int32)] * (2 * PICTURES),
    )
    write_captions("data/captions/captions.parquet", table)
    origin = Origin("b", "p", "w", "", "{}", "float32", "extracted")
    block = (np.arange(PICTURES), np.eye(PICTURES, dtype=np.float32))
    write_features("data/features/features.h5", ids, [""] * PICTURES, PICTURES, [block], origin)
    write_text("models/encoder/SHA256SUMS", "")
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_stage_writes_metrics_plots_and_lists(workplace, caplog):
    with caplog.at_level(logging.INFO):
        retrieval.work(RetrievalSettings())
    found = json.loads(Path("metrics/retrieval.json").read_text())
    assert list(found) == ["test"]
    assert list(found["test"]) == ["full", "skipped"]
    few = "the split test has 11 pictures, five folds need 5000"
    assert found["test"]["skipped"] == {
        "five_fold_1k": few,
        "short_queries": f"{NO_SHORT} (one word, two words, three words)",
    }
    rows = [number for number in range(PICTURES) if number != 3]
    captions = embedded([f"x {n + k}" for n in rows for k in (0, 1)])
    assert found["test"]["full"] == rounded(score(captions, np.eye(PICTURES)[rows], np.repeat(np.arange(11), 2)))
    assert f"protocol five_fold_1k left out: {few}" in caplog.text
    assert "retrieval: test, 22 captions x 11 pictures; R@1/5/10" in caplog.records[-1].getMessage()

    lists = pq.read_table("data/retrieval/top.parquet").to_pylist()
    assert len(lists) == (22 + 11) * 10
    assert [row["position"] for row in lists[:11]] == [*range(1, 11), 1]
    assert lists[0]["query_image"] == lists[0]["image_id"] == "p00.jpg"
    assert lists[0]["right"]
    recall = Path("plots/retrieval/recall.tsv").read_text().splitlines()
    assert recall[0] == "k\tcaption_to_image\timage_to_caption"
    assert recall[-1] == "11\t100\t100"
    assert Path("plots/retrieval/ranks.tsv").read_text().startswith("rank\tcaption_to_image\timage_to_caption\n1\t")


def test_the_same_inputs_give_the_same_bytes(workplace):
    retrieval.work(RetrievalSettings())
    once = contents(workplace)
    retrieval.work(RetrievalSettings())
    assert contents(workplace) == once


def test_five_folds_alone_of_too_few_pictures_are_told_before_anything_is_encoded(workplace, monkeypatch):
    monkeypatch.setattr(StandIn, "load", None)
    with pytest.raises(ScoringError, match=r"retrieval.protocols: the split test has 11 pictures.* Add full to retri"):
        retrieval.work(RetrievalSettings(protocols=["five_fold_1k"]))
    assert not Path("metrics").exists()


def test_the_query_bank_is_the_training_split_and_changes_nothing_else(workplace, monkeypatch, caplog):
    table = read_captions("data/captions/captions.parquet")
    splits = ["train" if int(image_id[1:3]) in (3, 7, 8) else "test" for image_id in table.image_ids]
    write_captions("data/captions/captions.parquet", dataclasses.replace(table, splits=splits))
    retrieval.work(RetrievalSettings(protocols=["full"]))
    plain = contents(workplace)
    with caplog.at_level(logging.INFO):
        retrieval.work(RetrievalSettings(protocols=["full", "querybank"], bank_pictures=2, bank_temperature=0.5))
    found = json.loads(Path("metrics/retrieval.json").read_text())["test"]
    rows = [number for number in range(PICTURES) if number not in (3, 7, 8)]
    captions = embedded([f"x {n + k}" for n in rows for k in (0, 1)])
    asking = embedded(["x 3", "x 7"]), np.eye(PICTURES)[[3, 7]]
    sides = with_querybank(captions, np.eye(PICTURES)[rows], *asking, temperature=0.5)
    assert found["querybank"].pop("bank_pictures") == 2
    assert found["querybank"] == rounded(score(*sides, np.repeat(np.arange(9), 2), "dot"))
    assert found["querybank"] != found["full"]
    assert "the query bank has 2 pictures, with one caption each" in caplog.text
    changed = {path.name for path, text in contents(workplace).items() if plain[path] != text}
    assert changed == {"retrieval.json"}
    for name, remedy in (("order", "Leave querybank out."), ("dot", "or set select.renormalise: true")):
        monkeypatch.setattr(StandIn, "similarity_name", name)
        with pytest.raises(ScoringError, match=rf"compared by the cosine, this one is by {name}.*{remedy}"):
            retrieval.work(RetrievalSettings(protocols=["querybank"]))


def test_scoring_of_test_is_entered_before_anything_is_written_and_of_dev_is_not(workplace):
    entered = []

    def enter(scorings):
        entered.append(scorings)
        assert not Path("metrics").exists()
        assert not Path("plots").exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retrieval.work(RetrievalSettings(protocols=["full"]), enter=enter)
    ((found,),) = entered
    captions = read_captions("data/captions/captions.parquet").split("test")
    rows = digest(zip(captions.image_ids, captions.texts, strict=True))
    assert (found.split, found.of, found.items, found.rows) == ("test", "pictures", 2 * (PICTURES - 1), rows)
    with pytest.raises(KeyboardInterrupt):
        retrieval.work(RetrievalSettings(split="train", protocols=["full"]), enter=enter)
    assert entered[1] == []


def test_sealed_split_is_scored_alone_and_without_one_the_message_names_the_parameter(workplace):
    with pytest.raises(CaptionsError, match=r"'sealed' has no captions.*corpus\.seal"):
        retrieval.work(RetrievalSettings(split="sealed", protocols=["full"]))
    table = read_captions("data/captions/captions.parquet")
    splits = ["sealed" if number < "p03.jpg" else split
              for number, split in zip(table.image_ids, table.splits, strict=True)]  # fmt: skip
    write_captions("data/captions/captions.parquet", dataclasses.replace(table, splits=splits))
    retrieval.work(RetrievalSettings(protocols=["full"]))
    assert json.loads(Path("metrics/retrieval.json").read_text())["test"]["full"]["caption_to_image"]["queries"] == 16
    retrieval.work(RetrievalSettings(split="sealed", protocols=["full"]))
    found = json.loads(Path("metrics/retrieval.json").read_text())
    assert (list(found), found["sealed"]["full"]["caption_to_image"]["queries"]) == (["sealed"], 6)
