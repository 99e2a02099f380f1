from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from small_encoder import made

from sightword.captions.table import CaptionTable, write_captions
from sightword.encoder import arguments, sentence_encoder
from sightword.encoder.derived import untrained
from sightword.errors import SemanticsError
from sightword.evaluation.ledger import digest
from sightword.evaluation.semantics.datasets import read_task
from sightword.evaluation.semantics.evaluation import evaluate
from sightword.evaluation.semantics.relatedness import TfIdf
from sightword.evaluation.semantics.results import read_pairs
from sightword.evaluation.semantics.settings import SemanticsSettings
from sightword.io.files import write_text
from sightword.statistics.inference import rounded
from stages import semantics


@pytest.fixture
def workplace(data, bag_encoder, monkeypatch):
    class StandIn:
        all_notes: ClassVar[list[dict[str, object]]] = []

        @classmethod
        def load(cls, folder, *, device):
            return cls()

        def encode(self, sentences, *, batch_size, max_length):
            assert max_length == arguments.LONGEST  # no sentence of a data set is too long
            return bag_encoder(sentences)

    monkeypatch.chdir(data)
    monkeypatch.setattr(sentence_encoder, "SentenceEncoder", StandIn)
    texts = (data / "downstream/STS/STSOwn-en-test/STS.input.street.txt").read_text().splitlines()[0].split("\t")
    ids = [np.array([2], np.int32)] * 2
    write_captions("data/captions/captions.parquet", CaptionTable(["a", "b"], [0, 0], ["train", "test"], texts, ids))
    write_text("models/encoder/SHA256SUMS", "")
    return data


def chosen(**changes):
    return SemanticsSettings(**{"data": ".", "tasks": ["STSOwn", "SICKRelatedness"], "controls": [], **changes})


def test_the_stage_writes_metrics_table_and_plots(workplace, bag_encoder, caplog):
    with caplog.at_level(logging.INFO):
        semantics.work(chosen(trained_head=False))
    found = json.loads(Path("metrics/semantics.json").read_text())
    plain = evaluate(bag_encoder, ["STSOwn", "SICKRelatedness"], ".", trained_head=False)
    assert found["STSOwn"]["all"] == rounded(plain["STSOwn"]["all"])
    assert found["STSOwn"]["street"]["seen_in_training"] == round(1 / 56, 6)  # the test caption was not trained on
    assert (
        Path("plots/semantics/systems.tsv")
        .read_text()
        .startswith("name\tsystem\tpearson\tlo\thi\nSTSOwn park.life\tthis")
    )
    assert Path("plots/semantics/breakdown.tsv").read_text().startswith("name\tpairs\trank_difference\tlean\n")
    assert len(read_pairs("data/semantics/pairs.parquet").subtasks) == 3
    assert len(Path("data/semantics/worst.tsv").read_text().splitlines()) == 51
    assert "semantics: 2 tasks, mean Pearson" in caplog.text


def test_a_wrong_file_leaves_nothing_behind(workplace):
    (workplace / "downstream/STS/STSOwn-en-test/STS.gs.street.txt").write_text("1\n")
    with pytest.raises(SemanticsError, match="has 1 line for the 30"):
        semantics.work(chosen())
    assert not Path("metrics").exists()
    assert not Path("plots").exists()


def test_controls_are_scored_beside_the_encoder(data, monkeypatch):
    monkeypatch.chdir(data)
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")
    encoder = made()
    encoder.save("models/encoder")
    captions = ["a red dog runs", "the man sits"]
    ids = [np.array([2], np.int32)] * 2
    write_captions("data/captions/captions.parquet", CaptionTable(["a", "b"], [0, 0], ["train"] * 2, captions, ids))
    semantics.work(chosen(tasks=["STSOwn"], seed=5, controls=["tfidf", "untrained"]))
    found = json.loads(Path("metrics/semantics.json").read_text())["controls"]
    expected = {"tfidf": TfIdf(captions), "untrained": untrained(encoder, 5).encode}
    alone = evaluate(bag_of_nothing, ["STSOwn"], ".", controls=expected)
    assert found == rounded(alone["controls"])
    assert found["tfidf"].keys() == found["untrained"].keys() == {"STSOwn"}
    semantics.work(chosen(tasks=["STSOwn"], controls=[]))
    assert "controls" not in json.loads(Path("metrics/semantics.json").read_text())


def bag_of_nothing(sentences):
    return np.ones((len(sentences), 1))


def test_scoring_of_each_task_is_entered_with_its_test_pairs(workplace):
    found = []

    def enter(scorings):
        found.extend(scorings)
        return scorings

    semantics.work(chosen(), enter=enter)
    assert [(one.split, one.of) for one in found] == [("test", "STSOwn"), ("test", "SICKRelatedness")]
    own, sick = (read_task(name, Path()) for name in ("STSOwn", "SICKRelatedness"))
    pairs = list(own.subtasks.values()), [sick.test]
    for one, parts in zip(found, pairs, strict=True):
        rows = [row for part in parts for row in zip(part.first, part.second, part.gold.tolist(), strict=True)]
        assert (one.items, one.rows) == (len(rows), digest(rows))
