"""Gradients are shortened as each published system does it: against plain loops in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pipeline.params import overlay, recipes
from sightword.model.encoders import Encoders
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import clip

SCOPES = ("side", "all", "tensor")


def settings(**values: object) -> TrainSettings:
    return TrainSettings(**{"embedding": 3, "hidden": 4, "attention": 3, **values})


def with_gradients(device: str = "cpu") -> Encoders:
    random = torch.Generator().manual_seed(0)
    encoders = Encoders(7, 5, settings().shape)
    for place, weight in enumerate(encoders.parameters()):
        weight.grad = torch.randn(weight.shape, generator=random) * 3.0 ** (place % 5 - 2)
    return encoders.to(device)


def gradients(encoders: Encoders) -> dict[str, np.ndarray]:
    return {name: weight.grad.double().numpy().copy() for name, weight in encoders.named_parameters()}


def length(gradients: dict[str, np.ndarray]) -> float:
    return math.sqrt(sum(float(number) ** 2 for gradient in gradients.values() for number in gradient.flat))


def shortened(gradients: dict[str, np.ndarray], limit: float | None) -> dict[str, np.ndarray]:
    """All of them, so that together they are no longer than the limit."""
    if limit is None or length(gradients) <= limit:
        return gradients
    return {name: gradient / length(gradients) * limit for name, gradient in gradients.items()}


def by_hand(gradients: dict[str, np.ndarray], scope: str, limits: dict[str, float | None]) -> dict[str, np.ndarray]:
    if scope == "all":
        return shortened(gradients, limits["images"])
    found = {}
    for side, limit in limits.items():
        own = {name: gradient for name, gradient in gradients.items() if name.startswith(f"{side}.")}
        parts = [own] if scope == "side" else [{name: gradient} for name, gradient in own.items()]
        for part in parts:
            found |= shortened(part, limit)
    return found


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("images", "captions"), [(0.5, 0.5), (3.0, 3.0), (0.02, 4.0), (None, 2.0), (None, None)])
def test_as_by_hand(scope, images, captions):
    if scope == "all":
        captions = images
    encoders = with_gradients()
    before = gradients(encoders)
    norms = clip(encoders, settings(clip_scope=scope, clip_images=images, clip_captions=captions))
    wanted = by_hand(before, scope, {"images": images, "captions": captions})
    for name, gradient in gradients(encoders).items():
        np.testing.assert_allclose(gradient, wanted[name], rtol=2e-5, err_msg=name)
        if images is None and captions is None:
            assert np.array_equal(gradient, before[name])
    sides = [{name: gradient for name, gradient in before.items() if name.startswith(side)} for side in ("im", "cap")]
    np.testing.assert_allclose(norms.numpy(), [length(side) for side in sides], rtol=1e-6)  # before clipping


@pytest.mark.parametrize("scope", SCOPES)
def test_no_value_is_read_so_that_nothing_waits_for_a_device(scope):
    """Tensors of the meta device have no values."""
    encoders = with_gradients("meta")
    for weight in encoders.parameters():
        weight.grad = torch.empty_like(weight)
    norms = clip(encoders, settings(clip_scope=scope, clip_images=2.0, clip_captions=2.0))
    assert norms.shape == (2,)
    with pytest.raises(RuntimeError, match="meta"):
        norms.tolist()


def test_one_limit_for_all_is_one():
    with pytest.raises(ValueError, match=r"one limit for both sides, but clip_images is 1\.0 and clip_captions 2\.0"):
        settings(clip_scope="all", clip_images=1.0, clip_captions=2.0)
    assert settings(clip_scope="all", clip_images=None, clip_captions=None).clip_scope == "all"


def test_each_recipe_clips_as_its_system_does(repository):
    every = [(one.name, overlay.resolve(one, repository)) for one in recipes.list_recipes(repository)]
    scopes = {name: whole.values["train"]["clip_scope"] for name, whole in every if not whole.pipeline.folder}
    assert scopes.pop("coco-vsepp") == scopes.pop("flickr8k-vsepp") == "all"
    assert scopes.pop("coco-order") == scopes.pop("flickr8k-order") == "tensor"
    assert set(scopes.values()) == {"side"}
