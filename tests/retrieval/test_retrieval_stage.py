from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.captions.table import CaptionTable, write_captions
from pipeline.errors import CaptionsError
from pipeline.features.table import Origin, write_features
from pipeline.model import sentence_encoder
from pipeline.retrieval.protocols import score
from pipeline.retrieval.settings import RetrievalSettings
from stages import retrieval

PICTURES = 12


class StandIn:
    """Encodes captions as the picture they name, with some noise."""

    similarity_name = "cosine"

    @classmethod
    def load(cls, folder, *, device):
        return cls()

    def encode(self, sentences, *, batch_size, show_progress_bar):
        return np.stack([np.roll(np.linspace(1, 0, PICTURES), int(text.split()[-1])) for text in sentences])

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
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_stage_writes_metrics_plots_and_lists(workplace, caplog):
    with caplog.at_level(logging.INFO):
        retrieval.work(RetrievalSettings())
    found = json.loads(Path("metrics/retrieval.json").read_text())
    assert list(found) == ["test"]
    assert list(found["test"]) == ["full"]  # eleven pictures make no five folds
    rows = [number for number in range(PICTURES) if number != 3]
    captions = StandIn().encode([f"x {n + k}" for n in rows for k in (0, 1)], batch_size=1, show_progress_bar=False)
    assert found["test"]["full"] == score(np.eye(PICTURES)[rows], captions, np.repeat(np.arange(11), 2))
    assert "protocol five_fold_1k left out: 11 pictures, it needs 5000" in caplog.text
    assert "retrieval: test, 22 captions x 11 pictures; R@1/5/10" in caplog.records[-1].getMessage()

    lists = pq.read_table("data/retrieval/top10.parquet").to_pylist()
    assert len(lists) == (22 + 11) * 10
    assert [row["position"] for row in lists[:11]] == [*range(1, 11), 1]
    assert lists[0]["query_image"] == lists[0]["image_id"] == "p00.jpg"
    assert lists[0]["right"]
    recall = Path("plots/retrieval/recall.tsv").read_text().splitlines()
    assert recall[0] == "k\tcaption_to_image\timage_to_caption"
    assert recall[-1] == "11\t100\t100"
    assert Path("plots/retrieval/ranks.tsv").read_text().startswith("rank\tcaption_to_image\timage_to_caption\n1\t")


def test_the_encoder_says_how_it_is_compared(workplace, monkeypatch):
    monkeypatch.setattr(StandIn, "similarity_name", "order")
    retrieval.work(RetrievalSettings())
    scores = pq.read_table("data/retrieval/top10.parquet")["score"].to_pylist()
    assert max(scores) <= 0  # minus an error; the cosines of the same embeddings are positive


def test_the_same_inputs_give_the_same_bytes(workplace):
    retrieval.work(RetrievalSettings())
    once = contents(workplace)
    retrieval.work(RetrievalSettings())
    assert contents(workplace) == once


def test_an_empty_split_is_told_and_nothing_is_written(workplace):
    with pytest.raises(CaptionsError, match="the split 'dev' has no captions"):
        retrieval.work(RetrievalSettings(split="dev"))
    assert not Path("metrics").exists()
    assert not Path("data/retrieval").exists()
