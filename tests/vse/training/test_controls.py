"""Controls take away what a network should learn from, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders
from sightword.vse.training.batches import controlled
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import train


def split(pictures: int = 40, captions: int = 5) -> Pairs:
    """The picture n has the features (n, n), and its captions the tokens n + 2 and their number."""
    owners = np.repeat(np.arange(pictures), captions)
    numbers = np.tile(np.arange(captions), pictures)
    features = np.repeat(np.arange(pictures, dtype=np.float32)[:, None], 2, axis=1)
    ids = [np.array([owner + 2, number + 2]) for owner, number in zip(owners, numbers, strict=True)]
    return Pairs([str(n) for n in range(pictures)], features, [""] * len(ids), ids, numbers, owners)


def settings(**changes: object) -> TrainSettings:
    small = {"cell": "ngrams", "embedding": 8, "ngram_buckets": 64, "batch": 10, "epochs": 1, "cycle": 1}
    return TrainSettings(**{**small, "loss": "infonce", "second_caption": True, "rate_max": 0.01, **changes})


def test_without_a_control_the_split_stays() -> None:
    whole = split()
    kept = controlled(whole, settings())
    assert kept.features is whole.features
    assert kept.image_of_caption is whole.image_of_caption


def test_shuffled_pictures_exchange_features_and_keep_their_captions() -> None:
    whole = split()
    found = controlled(whole, settings(pictures="shuffled"))
    assert sorted(found.features[:, 0]) == list(range(40))
    assert (found.features != whole.features).any(axis=1).mean() > 0.8
    np.testing.assert_array_equal(found.image_of_caption, whole.image_of_caption)


def test_shuffled_clusters_leave_each_picture_its_number_of_captions() -> None:
    whole = split()
    found = controlled(whole, settings(clusters="shuffled"))
    np.testing.assert_array_equal(np.bincount(found.image_of_caption), np.full(40, 5))
    assert (found.image_of_caption != whole.image_of_caption).mean() > 0.8
    np.testing.assert_array_equal(found.features, whole.features)


def test_the_orders_depend_on_the_seed_and_differ_from_each_other() -> None:
    whole = split(captions=1)
    orders = [
        (made.features[:, 0].tolist(), made.image_of_caption.tolist())
        for seed in (0, 0, 1)
        for made in [controlled(whole, settings(seed=seed, pictures="shuffled", clusters="shuffled"))]
    ]
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[2][0]
    assert orders[0][1] != orders[2][1]
    assert orders[0][0] != orders[0][1]


def trained(**changes: object) -> Encoders:
    return train(settings(**changes), split(), split(), tokens=50, device=torch.device("cpu")).encoders


@pytest.mark.parametrize("scope", ["side", "all", "tensor"])
def test_without_pictures_the_captions_learn_and_the_picture_side_does_not(scope) -> None:
    limits = {"clip_scope": scope, "clip_images": 1.0, "clip_captions": 1.0}
    end = trained(pictures="none", epochs=2, **limits)
    before = trained(pictures="none", rate_min=1e-30, rate_max=1e-30, **limits)
    for name, weights in before.images.state_dict().items():
        torch.testing.assert_close(end.images.state_dict()[name], weights, rtol=0, atol=0)
    moved = [
        (end.captions.state_dict()[name] - weights).abs().max()
        for name, weights in before.captions.state_dict().items()
    ]
    assert max(moved) > 0.01


def test_without_pictures_their_features_do_not_matter() -> None:
    """The same with other features, so nothing of them reaches the captions."""
    whole = split()
    other = Pairs(**{**vars(whole), "features": whole.features[::-1] ** 2})
    one, two = (
        train(
            settings(pictures="none"), pairs, whole, tokens=50, device=torch.device("cpu")
        ).encoders.captions.state_dict()
        for pairs in (whole, other)
    )
    for name, weights in one.items():
        torch.testing.assert_close(two[name], weights, rtol=0, atol=0)


def test_without_pictures_there_must_be_second_captions() -> None:
    with pytest.raises(ValueError, match="second_caption must be true"):
        settings(pictures="none", second_caption=False)
