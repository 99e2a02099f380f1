"""Numerical traps in the trainings of all systems: the result is right, or one message says what is wrong."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import small_tasks
import torch
from small_tasks import run

from sightword.errors import EncoderError, TrainingError
from sightword.grounded.training import task
from sightword.hypernyms.training.concepts import Concepts
from sightword.training import engine

PAIRS = small_tasks.pictures()
TINY = {"embedding": 1, "hidden": 1, "attention": 1, "epochs": 1, "cycle": 1}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("train", {"rate_max": 1e30}, "the loss is not finite at batch 3 .*Lower train.rate_max"),
        ("train, hinge", {"rate_max": 1e30}, "the loss is not finite at batch 3 "),
        ("train, hinge", {"margin": 1e38}, "the loss is not finite at batch 1 "),
        ("entail", {"margin": 1e38}, "between batch 0 and 4.*look at train.clip and train.margin"),
        ("ground", {"cluster": 1, "rate": 1e30}, "the cluster loss is not a finite number between batch 0 and 3"),
        ("ground", {"perceptual": 1, "hidden": 1, "width": 1}, "Pearson's correlation is undefined where"),
        ("ground", {"cluster": 1, "batch": 17}, "a batch has 17 pictures, and training has 16"),
        ("embed", {"batch": 1000}, r"train\.batch = 1000 takes 500 true pairs, and 199 can be corrupted"),
        ("embed", {"init": 1e30}, "energies of dev are not finite at batch 0. Lower train.rate, or look at train.m"),
        ("embed", {"margin": 1e300}, "the loss is not a finite number between batch 0 and 7"),
        ("embed", {"rate": 1e30}, "the loss is not a finite number between batch 0 and 7"),
        ("embed", {"energy": "gaussian", "init": 1e18}, "the loss is not a finite number between batch 0 and 7"),
    ],
)
def test_run_that_cannot_be_right_ends_with_a_message(name, changes, message):
    with pytest.raises(TrainingError, match=message):
        run(name, **changes)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("train, hinge", {**TINY, "margin": 0.0}),
        ("train, hardest", {"margin": 1e-320, "epochs": 1, "cycle": 1, "seed": 2**32 - 1}),
        ("skipthought", {"embedding": 1, "hidden": 1, "steps": 2, "seed": 2**32 - 1}),
        ("entail", {"embedding": 1, "hidden": 1, "epochs": 1, "batch": 299, "rate": 1e30, "validate_every": 10**9}),
        ("ground", {"perceptual": 0, "hidden": 1, "width": 1, "steps": 1, "rate": 1e-300}),
        *(("embed", {"dimension": 1, "energy": one}) for one in ("order", "symmetric", "gaussian", "bilinear", "cone")),
    ],
)
def test_extreme_settings_leave_weights_and_curves_finite(name, changes):
    weights, progress = run(name, **changes)
    assert all(value.isfinite().all() for part, value in weights.items())
    points = [value for curves in progress.curves.values() for curve in curves.values() for _, value in curve]
    assert points
    assert all(map(math.isfinite, points))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("skipthought", {"rate": 1e30, "steps": 4}, "the encoder learned nothing"),
        (
            "ground",
            {"captions_as_text": 1.0, "rate": 1e10, "cluster": 0, "perceptual": 0},
            "text loss is .*lower the scenario",
        ),
        (
            "ground",
            {"cap2cap": 1.0, "rate": 1e10, "cluster": 0, "perceptual": 0},
            "cap2cap loss is .*lower the scenario",
        ),
    ],
)
def test_text_worse_than_a_guess_is_reported(caplog, name, changes, message):
    run(name, **changes)
    assert re.search(message, caplog.text)


def test_concepts_with_energies_not_finite_answer_nothing():
    vectors, settings = (
        np.full((2, 2), 1e30, np.float32),
        {"energy": "cone", "dimension": 2, "margin": 1.0, "slack": 0.0},
    )
    concepts = Concepts(["a", "b"], [[], []], vectors, {}, 0.5, settings)
    with pytest.raises(EncoderError, match="energies that are not finite"):
        concepts.is_a("a", "b")


@pytest.mark.parametrize("name", ["skipthought", "entail", "ground"])
def test_infinite_norm_of_a_clipped_gradient_stops_the_run(monkeypatch, name):
    for module in (engine, task):
        monkeypatch.setattr(module, "clip_grad_norm_", lambda *_: torch.tensor(math.inf))
    with pytest.raises(TrainingError, match=r"(loss|norm of the gradient) is not a finite number between batch 0 and"):
        run(name)
