"""Fewer axes of an encoder of n-grams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from encoder_kinds import BAG, summed
from small_project import begin

from pipeline import cli
from sightword.encoder.derived import keep_axes
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.model.similarity import unit_rows
from sightword.vse.selection.settings import SelectSettings
from sightword.vse.training.settings import TrainSettings
from stages import select, train

TEXTS = ["a dog runs", "two cats sit", "a red ball", "dogs run in snow", "the cat", "a man"]


def test_kept_axes_are_the_projection_of_vectors_of_both_sides() -> None:
    whole = summed(BAG)
    features = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)
    short = keep_axes(whole, 3, TEXTS)
    vectors = whole.encode(TEXTS)
    axes = np.linalg.svd(vectors.astype(np.float64))[2][:3].T  # right singular vectors: those of the second moment
    for found, before in (
        (short.encode(TEXTS), vectors),
        (short.encode_images(features), whole.encode_images(features)),
    ):
        expected = unit_rows(before @ axes)
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)
        assert found.shape[1] == 3
    both = short.encode(TEXTS) @ short.encode_images(features).T
    expected = unit_rows(vectors @ axes) @ unit_rows(whole.encode_images(features) @ axes).T
    np.testing.assert_allclose(both, expected, atol=1e-5)


def test_axes_that_cannot_be_kept_are_refused() -> None:
    with pytest.raises(EncoderError, match="has 5 trained numbers a vector; expected more than the 5 to keep"):
        keep_axes(summed(BAG), 5, TEXTS)
    with pytest.raises(EncoderError, match="axes can be kept of one network of n-grams and the cosine"):
        keep_axes(summed(BAG | {"similarity": "order"}), 3, TEXTS)


def test_pack_with_axes_writes_the_shorter_encoder_and_its_card(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    whole = summed(BAG)
    whole.save("mine")
    Path("mine/README.md").write_text("# Mine\n\nIt turns a sentence into 5 numbers.\n")
    Path("captions.txt").write_text("\n".join(TEXTS))
    assert cli.main(["pack", "mine", "short", "--axes", "3", "--captions", "captions.txt"]) == 0
    expected = keep_axes(whole, 3, TEXTS).encode(TEXTS)
    np.testing.assert_array_equal(SentenceEncoder.load("short").encode(TEXTS), expected)
    card = Path("short/README.md").read_text()
    assert "It turns a sentence into 3 numbers." in card
    assert "The trained vector keeps 3 of 5 axes" in card
    assert cli.main(["pack", "short", "shorter", "--axes", "2", "--captions", "captions.txt"]) == 0
    card = Path("shorter/README.md").read_text()
    assert (card.count("## Axes"), card.count("keeps 2 of 5 axes")) == (1, 1)
    assert cli.main(["pack", "mine", "other", "--axes", "3"]) == 1
    assert "captions.parquet: does not exist. Name the training captions with --captions" in capsys.readouterr().err
    assert not Path("other").exists()


def test_pack_with_axes_shows_recall_on_dev_before_and_after(tmp_path, monkeypatch, capsys) -> None:
    begin(tmp_path, monkeypatch)
    train.work(TrainSettings(**BAG, batch=4, epochs=1, cycle=1, snapshots="epoch"))
    select.work(SelectSettings(members=1))
    capsys.readouterr()
    assert cli.main(["pack", "models/encoder", "short", "--axes", "2"]) == 0
    printed = capsys.readouterr().out  # ten of the four pictures and eight captions of dev: all are found
    for name in ("whole", "2 axes"):
        assert f"{name}: R@10 on dev 100.0 and 100.0 (caption to image, image to caption)" in printed
