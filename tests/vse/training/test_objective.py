"""The loss of a batch, and runs that go wrong: they are stopped and told where; one that is well never is."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_pictures import VOCABULARY, spelled
from torch.nn import functional

from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders
from sightword.training.checkpoint import Checkpoint
from sightword.vse.training import objective as rules
from sightword.vse.training import task as loop
from sightword.vse.training.objective import GROWN, LARGEST_SCALE, LOOK, Objective, Plan, Watch, at_chance
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import CaptionTask, Data, train

SETTINGS = TrainSettings(
    embedding=5, hidden=8, attention=6, batch=8, epochs=8, cycle=4, rate_max=0.02, clip_images=None,
    clip_captions=None,
)  # fmt: skip
HARDEST = TrainSettings(
    embedding=6, hidden=12, attention=8, batch=8, initialisation="vsepp", loss="hardest", reduction="sum",
    clip_images=None, clip_captions=None, schedule="step", cycle=1, epochs=20, rate_max=0.02,
)  # fmt: skip
BATCHES = 4 * LOOK
"""In an epoch, where losses are made up."""
ALIKE = 2 * 0.2 * 7 / 8
"""What a batch of 8 costs by a model that knows nothing."""


def objective(**change: object) -> Objective:
    return Objective(TrainSettings(**{"loss": "hardest", "margin": 0.2, **change}))


def same(count: int) -> torch.Tensor:
    return torch.eye(count, dtype=torch.bool)


# The loss


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss", ["hinge", "hardest", "infonce"])
def test_chance_level_is_the_loss_of_equal_scores(loss, reduction):
    asked = objective(loss=loss, reduction=reduction)
    for pairs in (2, 9):
        assert asked.alike(pairs) == pytest.approx(asked(torch.full((pairs, pairs), 0.3), same(pairs)).item(), rel=1e-5)
    alike = torch.ones(4, 3) / 3**0.5
    second = objective(loss=loss, reduction=reduction, second_caption=True)
    assert second.alike(4) == pytest.approx(second.both([alike, alike], alike, same(4)).item(), rel=1e-5)
    auxiliary = objective(loss=loss, reduction=reduction, beside_batch=6)
    both = asked.alike(4) + auxiliary.beside(alike[:1].expand(6, 3), alike[:1].expand(6, 3)).item()
    assert auxiliary.alike(4) == pytest.approx(both, rel=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "infonce"])
def test_second_captions_are_paired_with_pictures_and_first_ones(loss):
    first, second, images = (functional.normalize(torch.randn(5, 7), dim=1) for _ in range(3))
    asked = objective(loss=loss, second_caption=True)
    each = [asked(one @ other.T, same(5)).item() for one, other in ((first, images), (second, images))]
    between = asked(first @ second.T, same(5)).item()
    assert asked.both([first, second], images, same(5)).item() == pytest.approx(sum(each) / 2 + between, rel=1e-5)
    assert asked.both([first], images, same(5)).item() == pytest.approx(each[0], rel=1e-5)
    assert asked.beside(first, second).item() == pytest.approx(between, rel=1e-5)
    alone = objective(loss=loss, second_caption=True, pictures="none")
    assert alone.both([first, second], images, same(5)).item() == pytest.approx(between, rel=1e-5)
    assert alone.alike(5) == objective(loss=loss).alike(5)


def test_captions_are_not_compared_by_an_order():
    for change, told in (
        ({"second_caption": True, "similarity": "order"}, "second_caption compares captions"),
        ({"beside_batch": 8, "similarity": "order"}, "beside_batch compares captions"),
        ({"pictures": "shuffled", "cell": "tfidf"}, "pictures and clusters must be real"),
        ({"spans": 0.2, "cell": "tfidf"}, "spans and typing_errors must be 0 with cell tfidf"),
        ({"beside_batch": 1}, "beside_batch must be 0 or at least 2"),
    ):
        with pytest.raises(ValueError, match=told):
            TrainSettings(**change)


@pytest.mark.parametrize("beyond", [100, 150])
def test_scale_is_limited_has_a_gradient_and_comes_down(beyond):
    """The scores are best for a mismatch: the larger their scale, the larger the loss."""
    asked, wrong = objective(loss="infonce"), torch.eye(4).roll(1, dims=0)
    assert asked.log_scale.exp().item() == pytest.approx(1 / 0.07)
    with torch.no_grad():
        asked.log_scale.fill_(math.log(beyond))
    asked.limit()
    scales = [asked.log_scale.exp().item()]
    assert scales[0] == pytest.approx(LARGEST_SCALE)
    optimiser = torch.optim.SGD(asked.parameters(), lr=1e-3)
    for _ in range(3):
        optimiser.zero_grad()
        asked(wrong, same(4)).backward()
        assert asked.log_scale.grad.item() == pytest.approx(scales[-1], rel=1e-4)  # the loss is about the scale
        optimiser.step()
        asked.limit()
        scales.append(asked.log_scale.exp().item())
    assert scales == sorted(scales, reverse=True)


# Whole trainings


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    return spelled(5)


def run(pairs: Pairs, kept: list[int], checkpoint: Checkpoint | None = None, **change: object) -> CaptionTask:
    """Train; the epochs whose snapshots were kept go into ``kept``, which outlives an error."""
    base = HARDEST if change.pop("hardest", False) else SETTINGS
    return train(
        TrainSettings(**{**base.model_dump(), **change}), Data(pairs, pairs, VOCABULARY), device=torch.device("cpu"),
        keep=lambda epoch, _: kept.append(epoch), checkpoint=checkpoint,
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"reduction": "sum", "dropout_states": 0.5, "dropout_features": 0.5},
        {"loss": "hardest"},
        {"similarity": "order", "margin": 0.05},
        {"rate_max": 1e-8, "rate_min": 1e-9},
    ],
)
def test_run_that_learns_is_never_stopped(pairs, monkeypatch, change):
    monkeypatch.setattr(rules, "LOOK", 10)  # stricter than it is
    kept: list[int] = []
    run(pairs, kept, **change)
    assert kept == [4, 8]


def test_range_test_goes_on_where_the_loss_explodes(pairs, monkeypatch):
    honest = loop.learning_rate
    monkeypatch.setattr(loop, "learning_rate", lambda *about: 1e4 if about[1] >= 60 else honest(*about))
    monkeypatch.setattr(rules, "LOOK", 10)
    kept: list[int] = []
    run(pairs, kept, schedule="range", rate_min=0.005)
    assert kept == [4, 8]
    with pytest.raises(TrainingError, match="explodes"):
        run(pairs, kept, schedule="cosine", rate_min=0.005)


def test_collapsed_run_is_reported_with_a_remedy():
    kept: list[int] = []
    with pytest.raises(TrainingError) as caught:
        run(spelled(base=1, spread=1e-6), kept, hardest=True)
    text = str(caught.value)
    assert kept == list(range(1, 7))  # then all of its last five epochs had losses within 1 %
    assert "training is stuck: for 5 epochs, up to epoch 7, all pairs of a batch score alike" in text
    assert "2 * batch * margin) and dev is no better than chance (mean rank of the right picture 12." in text
    assert "train.initialisation: vsepp" in text


def test_run_that_learns_at_the_loss_of_collapse_goes_on():
    history = run(spelled(base=1, spread=0.1), [], hardest=True, rate_max=0.002)
    losses = np.array([loss for _, loss in history.progress.curves["loss"]["loss"]]).reshape(20, 6)
    assert (np.abs(losses[7:] / (2 * 8 * 0.2) - 1) < 0.012).all()  # thirteen epochs, and to the end
    recall = [entry["caption_to_image"]["r10"] for entry in history.recall.values()]
    assert recall[0] < 45  # 10 of 24 is chance
    assert recall[-1] == 100


def test_count_of_stuck_epochs_survives_a_kill(tmp_path):
    class KilledError(BaseException):
        """Stands for SIGKILL: nothing catches it."""

    class Fatal(list[int]):
        def append(self, epoch: int) -> None:
            if epoch == 5:
                raise KilledError

    same_pictures = spelled(base=1, spread=1e-6)
    with pytest.raises(KilledError):
        run(same_pictures, Fatal(), Checkpoint(tmp_path), hardest=True)
    with pytest.raises(TrainingError, match="up to epoch 7"):
        run(same_pictures, [], Checkpoint(tmp_path), hardest=True)


# The rules by themselves


def watching() -> Watch:
    torch.manual_seed(0)
    return Watch(Encoders(len(VOCABULARY), 20, SETTINGS.shape), Objective(SETTINGS))


def plan(epoch: int = 0) -> Plan:
    rates = [0.001 * (step + 1) for step in range(BATCHES)]
    return Plan(epoch, epoch * BATCHES, [np.arange(8)] * BATCHES, rates)


def feed(seen: Watch, shares: np.ndarray, looks: frozenset[int] = frozenset()) -> None:
    """The losses of some batches, as shares of what a model costs that knows nothing."""
    for place, share in enumerate(shares):
        seen.add(torch.tensor(share * ALIKE, dtype=torch.float32), torch.tensor([0.25, 4.0]))
        if seen.due or place in looks:
            seen.look(plan())


def test_loss_that_comes_back_to_that_of_knowing_nothing_explodes():
    with pytest.raises(TrainingError) as caught:
        feed(watching(), np.r_[np.full(LOOK, 0.4), np.full(LOOK, 0.95)])
    text = str(caught.value)
    assert "over 50 batches it is 0.95 times what it costs to give all pairs one score, and it was 0.40 times" in text
    assert "batch 100 (epoch 1), learning rate 0.1, gradient norms 0.25 (pictures) and 4 (captions)" in text
    assert "Lower train.rate_max" in text


@pytest.mark.parametrize(("grown", "told"), [(0.9 * GROWN, None), (1.1 * GROWN, "1.1e.03"), (math.nan, "nan")])
def test_loss_of_knowing_nothing_with_grown_weights_explodes(monkeypatch, grown, told):
    seen = watching()
    monkeypatch.setattr(seen, "_sizes", lambda: grown * seen._start)
    with pytest.raises(TrainingError, match=f"is 1.00 times .*have grown {told}-fold") if told else nullcontext():
        feed(seen, np.ones(LOOK))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from([0.1, 0.6, 1.0]), min_size=4, max_size=4),
    st.frozensets(st.integers(0, BATCHES - 1), max_size=8),
    st.integers(1, BATCHES - 1),
)
def test_verdict_is_the_rule_whatever_the_looks_and_kills(levels, looks, killed):
    shares = np.repeat(levels, LOOK) * np.random.default_rng(0).uniform(0.9, 1.1, BATCHES)
    means = [float(block.mean()) for block in np.split(shares, 4)]
    wanted = any(mean >= 0.9 and min(means[:place], default=1) <= 0.5 for place, mean in enumerate(means))
    found = False
    try:
        first, second = watching(), watching()
        feed(first, shares[:killed], looks=looks | {killed - 1})
        second.restore(first.state())
        assert second.losses.tolist() == first.losses.tolist()
        feed(second, shares[killed:])
        assert len(second.losses) == BATCHES
    except TrainingError:
        found = True
    assert found == wanted


@pytest.mark.parametrize("pictures", [2, 24, 1000])
def test_chance_is_one_standard_error_of_independent_ranks(pictures):
    random = np.random.default_rng(0)
    means = random.integers(1, pictures, size=(4000, pictures), endpoint=True).mean(axis=1)
    found = np.mean([at_chance(mean, pictures) for mean in means])
    assert found == pytest.approx(0.841, abs=0.1 if pictures == 2 else 0.02)  # of a normal distribution
    assert at_chance(pictures, pictures)  # equal scores: all ties count against
