"""The stage epochs, from its inputs to its table."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from kept_epochs import EPOCHS, write_inputs

from sightword.report.inputs import read_tsv
from sightword.vse.selection.settings import EpochsSettings
from stages import epochs

TABLE = Path("plots/epochs/epochs.tsv")
SETTINGS = EpochsSettings(data="senteval", tasks=["STSOwn"])


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")
    return tmp_path


def test_it_writes_a_row_for_each_kept_epoch_and_the_same_bytes_again(workplace, caplog):
    with caplog.at_level(logging.INFO):
        epochs.work(SETTINGS)
    columns = read_tsv(TABLE)
    assert list(columns) == ["epoch", "caption_to_image_r10", "image_to_caption_r10", "semantics", "STSOwn"]
    assert columns["epoch"] == [str(epoch) for epoch in EPOCHS]
    assert columns["semantics"] == columns["STSOwn"]
    assert "epochs: evaluated 2 snapshots on STSOwn" in caplog.text
    before = TABLE.read_bytes()
    epochs.work(SETTINGS)
    assert TABLE.read_bytes() == before
    assert [path.name for path in TABLE.parent.iterdir()] == [TABLE.name]
