"""The features of a batch's pictures: the mean of all crops, or of crops that are drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightword.errors import TrainingError
from sightword.pairs import Pairs
from sightword.training import pictures as training_pictures
from sightword.training.loop import check_sizes
from sightword.training.pictures import Pictures
from sightword.training.settings import TrainSettings

CPU = torch.device("cpu")


def split(crops: int) -> Pairs:
    """Six pictures with four features; crop c of picture p has 100 p + 2 ** c everywhere."""
    apart = np.arange(6)[:, None, None] * 100 + 2.0 ** np.arange(crops)[:, None] * np.ones(4)
    apart = apart.astype(np.float32)
    rows = np.arange(6)
    return Pairs([""] * 6, apart.mean(axis=1), [""] * 6, [np.ones(1, np.int64)] * 6, rows * 0, rows, apart)


def pictures(crops: int, drawn: int, seed: int = 0) -> Pictures:
    return Pictures(split(crops), TrainSettings(crops=drawn, seed=seed), CPU)


@given(st.integers(1, 5), st.integers(0, 40))
def test_so_many_different_crops_are_averaged(drawn, step) -> None:
    places = np.array([5, 0, 3])
    found = pictures(5, drawn).features(places, slice(0, 3), step)
    assert found.shape == (3, 4)
    for row, place in zip(found, places, strict=True):
        assert len(set(row.tolist())) == 1
        total = round((row[0].item() - 100 * place) * drawn)
        assert total.bit_count() == drawn  # a sum of different powers of two
        assert total < 2**5


def test_each_crop_is_drawn() -> None:
    source = pictures(5, 1)
    found = {source.features(np.array([0]), slice(0, 1), step)[0, 0].item() for step in range(200)}
    assert found == {1, 2, 4, 8, 16}


def test_all_crops_are_the_mean_and_none_drawn_is_the_mean() -> None:
    places, whole = np.array([1, 4]), slice(0, 2)
    mean = torch.from_numpy(split(5).features[places])
    assert torch.allclose(pictures(5, 5).features(places, whole, 7), mean)
    assert torch.equal(pictures(5, 0).features(places, whole, 7), mean)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9))
def test_a_share_has_the_crops_of_the_whole_batch(start, end, step) -> None:
    places = np.array([2, 3, 5, 0, 1, 4])
    source = pictures(5, 2)
    whole = source.features(places, slice(0, 6), step)
    assert torch.equal(source.features(places, slice(start, end), step), whole[start:end])
    other = pictures(5, 2, seed=1).features(places, slice(0, 6), step)
    assert not torch.equal(other, whole)


def test_copies_of_a_picture_are_no_mismatches() -> None:
    features = np.array([[1, 2], [3, 4], [1, 2], [-0.0, 0]], np.float32)
    rows = np.arange(4)
    copies = Pairs([""] * 4, features, [""] * 4, [np.ones(1, np.int64)] * 4, rows * 0, rows)
    assert Pictures(copies, TrainSettings(), CPU).kinds.tolist() == [0, 1, 0, 2]


def test_more_crops_than_there_are_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"train\.crops = 6, but the features of 5 crops"):
        check_sizes(TrainSettings(crops=6, batch=2), split(5))
    none = Pairs(**{**split(5).__dict__, "crops": None})
    with pytest.raises(TrainingError, match=r"of no crops .*ten_apart"):
        check_sizes(TrainSettings(crops=1, batch=2), none)
    check_sizes(TrainSettings(crops=5, batch=2), split(5))


def test_features_too_large_for_a_gpu_stay_where_they_are_and_it_is_said(monkeypatch, caplog) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100, 1000))
    places = np.array([4, 1])
    monkeypatch.setattr(training_pictures, "move", lambda values, device: values)
    monkeypatch.setattr(torch.Tensor, "to", lambda values, device: values)
    found = Pictures(split(5), TrainSettings(), torch.device("cuda")).features(places, slice(0, 2), 0)
    assert "do not fit on the GPU" in caplog.text
    assert torch.equal(found, torch.from_numpy(split(5).features[places]))
