"""A training that went wrong is stopped, and told where and how; one that is well never is."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_pictures import TOKENS, spelled

from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders
from sightword.vse.training import divergence
from sightword.vse.training import task as loop
from sightword.vse.training.divergence import LOOK, Plan, Watch
from sightword.vse.training.objective import Objective
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import CaptionTask, train

SETTINGS = TrainSettings(
    embedding=5, hidden=8, attention=6, batch=8, epochs=8, cycle=4, rate_max=0.02, clip_images=None,
    clip_captions=None,
)  # fmt: skip
BATCHES = 4 * LOOK
"""In an epoch, where losses are made up."""
ALIKE = 2 * 0.2 * 7 / 8
"""What a batch of 8 costs by a model that knows nothing."""


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    return spelled(5)


def run(pairs: Pairs, kept: list[int] | None = None, dev: Pairs | None = None, **change: object) -> list[int]:
    """Train; the epochs whose snapshots were kept also go into ``kept``, which outlives an error."""
    kept = [] if kept is None else kept
    settings = TrainSettings(**{**SETTINGS.model_dump(), **change})
    train(
        settings,
        pairs,
        dev or pairs,
        tokens=TOKENS,
        device=torch.device("cpu"),
        keep=lambda epoch, _: kept.append(epoch),
    )
    return kept


# Whole trainings


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"reduction": "sum", "dropout_states": 0.5, "dropout_features": 0.5},
        {"loss": "hardest"},
        {"loss": "hardest", "warm_up": 2, "reduction": "sum"},
        {"loss": "infonce"},
        {"loss": "infonce", "temperature": 0.01, "schedule": "step", "rate_max": 0.005},
        {"similarity": "order", "margin": 0.05},
        {"margin": 0.0},
        {"rate_max": 1e-8, "rate_min": 1e-9},
    ],
)
def test_run_that_learns_is_never_stopped(pairs, monkeypatch, change):
    monkeypatch.setattr(divergence, "LOOK", 10)  # stricter than it is
    assert run(pairs, **change) == [4, 8]


@pytest.mark.parametrize("loss", ["hinge", "hardest", "infonce"])
@pytest.mark.parametrize("rate", [100.0, 1e6, 1e12])
def test_a_rate_that_makes_it_explode_stops_it(pairs, loss, rate):
    with pytest.raises(TrainingError) as caught:
        run(pairs, loss=loss, schedule="step", rate_max=rate)
    text = str(caught.value)
    assert re.search(r"the loss (explodes: over 50 batches|is not finite)", text)
    found = re.search(
        r"batch (\d+) \(epoch (\d+)\), learning rate (\S+), gradient norms .*\(pictures\) and .*\(capt", text
    )
    assert found
    step, epoch = int(found[1]), int(found[2])
    assert step <= 100
    assert epoch == (step - 1) // 10 + 1
    assert float(found[3]) == rate


def explode(monkeypatch):
    """Let the learning rate be 10,000 from batch 60 on."""
    real = loop.learning_rate

    def rate(settings: TrainSettings, step: int, per_epoch: int) -> float:
        return 1e4 if step >= 60 else real(settings, step, per_epoch)

    monkeypatch.setattr(loop, "learning_rate", rate)
    monkeypatch.setattr(divergence, "LOOK", 10)


def test_range_test_goes_on_where_the_loss_explodes(pairs, monkeypatch):
    explode(monkeypatch)
    assert run(pairs, schedule="range", rate_min=0.005, rate_max=0.02) == [4, 8]
    with pytest.raises(TrainingError, match="explodes"):
        run(pairs, schedule="cosine", rate_min=0.005, rate_max=0.02)


def test_picture_of_nan_stops_the_run_within_the_epoch(pairs, monkeypatch):
    honest, done = CaptionTask.learn, 0

    def step(self: CaptionTask, *arguments: object) -> torch.Tensor:
        nonlocal done
        done += 1
        if done == 5:
            self.training.features[:] = float("nan")
        return honest(self, *arguments)

    monkeypatch.setattr(CaptionTask, "learn", step)
    monkeypatch.setattr(divergence, "LOOK", 6)
    with pytest.raises(
        TrainingError, match=r"the loss is not finite at batch 5 \(epoch 1\), learning rate .*\(captions\)"
    ):
        run(Pairs(**{**pairs.__dict__, "features": pairs.features.copy()}))
    assert done == 6  # of the epoch's ten


# The rule by itself


def watching(**change: object) -> Watch:
    torch.manual_seed(0)
    settings = TrainSettings(**{**SETTINGS.model_dump(), **change})
    return Watch(Encoders(TOKENS, 20, settings.shape), Objective(settings))


def plan(epoch: int = 0) -> Plan:
    rows = np.arange(8)
    return Plan(epoch, epoch * BATCHES, [rows] * BATCHES, [0.001 * (step + 1) for step in range(BATCHES)])


def feed(seen: Watch, shares: np.ndarray, epoch: int = 0, looks: frozenset[int] = frozenset()) -> None:
    """The losses of some batches, as shares of what a model costs that knows nothing."""
    for place, share in enumerate(shares):
        seen.add(torch.tensor(share * ALIKE, dtype=torch.float32), torch.tensor([0.25, 4.0]))
        if seen.due or place in looks:
            seen.look(plan(epoch))


def grow(seen: Watch, factor: float) -> None:
    with torch.no_grad():
        for weight in seen._sides[0]:
            weight *= factor


def test_a_loss_that_comes_back_to_that_of_knowing_nothing_is_one():
    seen = watching()
    with pytest.raises(TrainingError) as caught:
        feed(seen, np.r_[np.full(LOOK, 0.4), np.full(LOOK, 0.95)])
    text = str(caught.value)
    assert "over 50 batches it is 0.95 times what it costs to give all pairs one score, and it was 0.40 times" in text
    assert "batch 100 (epoch 1), learning rate 0.1, gradient norms 0.25 (pictures) and 4 (captions)" in text
    assert "Lower train.rate_max" in text


def test_weights_that_grew_count_only_where_nothing_is_learned():
    seen = watching()
    feed(seen, np.full(LOOK, 1.0))
    grow(seen, 900.0)
    feed(seen, np.full(LOOK, 1.0))
    grow(seen, 2.0)
    feed(seen, np.full(LOOK, 0.8))
    with pytest.raises(TrainingError, match=r"1\.00 times .* the weights have grown 1\.8e\+03-fold; batch 200"):
        feed(seen, np.full(LOOK, 1.0))


def test_with_another_objective_the_count_begins_again():
    change = {"loss": "hardest", "warm_up": 1}
    seen = watching(**change)
    feed(seen, np.full(BATCHES, 0.3))
    seen.begin(anew=True)
    harder = np.full(BATCHES, 1.2) * 8 / 7  # hardest: 2 x margin, where all mismatches cost 2 x margin x 7 / 8
    feed(seen, harder, epoch=1)
    lost = watching(**change)
    feed(lost, np.full(BATCHES, 0.3))
    lost.begin(anew=False)
    with pytest.raises(TrainingError, match="explodes"):
        feed(lost, harder, epoch=1)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.1, 0.6, 1.0]), min_size=4, max_size=4),
    st.frozensets(st.integers(0, BATCHES - 1), max_size=8),
    st.integers(1, BATCHES - 1),
)
def test_verdict_does_not_depend_on_looks_or_kills(levels, looks, killed):
    """And the verdict is that of the rule, counted by hand."""
    shares = np.repeat(levels, LOOK) * np.random.default_rng(0).uniform(0.9, 1.1, BATCHES)
    means = [float(block.mean()) for block in np.split(shares, 4)]
    wanted = any(mean >= 0.9 and min(means[:place], default=1) <= 0.5 for place, mean in enumerate(means))
    found = False
    try:
        first = watching()
        feed(first, shares[:killed], looks=looks | {killed - 1})
        second = watching()
        second.restore(first.state())
        assert second.losses.tolist() == first.losses.tolist()
        feed(second, shares[killed:])
        assert len(second.losses) == BATCHES
    except TrainingError:
        found = True
    assert found == wanted


def test_gradient_of_nan_is_reported_before_a_snapshot():
    seen = watching()
    seen.add(torch.tensor(0.3), torch.tensor([0.1, 0.2]))
    seen.add(torch.tensor(0.3), torch.tensor([float("inf"), 0.2]))
    with pytest.raises(TrainingError) as caught:
        seen.look(plan(1))
    assert "the gradient is not finite at batch 202 (epoch 2), learning rate 0.002, " in str(caught.value)
    assert "of the batch before: 0.1 (pictures) and 0.2 (captions)" in str(caught.value)
