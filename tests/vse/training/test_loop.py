"""Training learns, repeats itself exactly, and stops with a clear message."""

import numpy as np
import pytest
import torch
from small_pictures import TOKENS, spelled

from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders, initialise
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import validate
from sightword.vse.training.task import CaptionTask, _near, cyclic_rate, train

SETTINGS = TrainSettings(
    embedding=6,
    hidden=12,
    attention=8,
    batch=8,
    bucket=2,
    epochs=8,
    cycle=4,
    rate_max=0.02,
    clip_images=None,
    clip_captions=None,
    reduction="sum",
)


@pytest.fixture(scope="module")
def pairs():
    return spelled()


def run(settings, pairs):
    kept = {}

    def keep(epoch, encoders):
        kept[epoch] = {name: value.clone() for name, value in encoders.state_dict().items()}

    return kept, train(settings, pairs, pairs, tokens=TOKENS, device=torch.device("cpu"), keep=keep)


def test_run_learns_and_keeps_a_snapshot_each_cycle(pairs):
    kept, done = run(SETTINGS, pairs)
    assert list(kept) == [4, 8]
    losses = [loss for _, loss in done.progress.curves["loss"]["loss"]]
    assert losses[-1] < losses[0] / 4
    assert done.recall[8]["caption_to_image"]["r1"] > 60
    steps = 8 * 2 * 3
    assert [step for step, _ in done.progress.curves["learning_rate"]["learning_rate"]] == list(range(1, steps + 1))
    assert [rate for _, rate in done.progress.curves["learning_rate"]["learning_rate"]] == pytest.approx(
        [cyclic_rate(step, steps // 2, 1e-6, 0.02) for step in range(steps)]
    )


def test_every_kept_epoch_has_its_recall_and_the_untrained_encoders_are_epoch_0(pairs):
    short = SETTINGS.model_copy(update={"epochs": 4, "snapshots": "epoch"})
    kept, done = run(short, pairs)
    assert list(kept) == list(done.recall) == [0, 1, 2, 3, 4]
    start = CaptionTask(short, pairs, TOKENS, torch.device("cpu")).encoders
    assert all(torch.equal(value, kept[0][name]) for name, value in start.state_dict().items())
    assert done.recall[0] == validate(start, pairs, "cosine")
    assert done.recall[0]["caption_to_image"]["r10"] < done.recall[4]["caption_to_image"]["r10"]


def test_the_same_parameters_give_the_same_weights_and_another_seed_others(pairs):
    short = SETTINGS.model_copy(update={"epochs": 4})
    one, _ = run(short, pairs)
    two, _ = run(short, pairs)
    other, _ = run(short.model_copy(update={"seed": 1}), pairs)
    for name, value in one[4].items():
        assert torch.equal(value, two[4][name]), name
    assert not torch.equal(one[4]["images.linear.weight"], other[4]["images.linear.weight"])


@pytest.mark.parametrize(
    "change",
    [
        {"cell": "lstm"},
        {"pooling": "max"},
        {"precision": "bf16"},
        {"standardise": "training"},
        {"bidirectional": False, "pooling": "last"},
        {"similarity": "order", "margin": 0.05},
        {"similarity": "reversed_order", "margin": 0.05, "loss": "hardest"},
        {"similarity": "order", "loss": "infonce"},
        {"schedule": "step"},
        {"captions_per_epoch": "one", "epochs": 8},
        {"initialisation": "vsepp"},
        {"initialisation": "order_embeddings"},
    ],
)
def test_each_variant_trains(pairs, change):
    _, done = run(SETTINGS.model_copy(update={"epochs": 4, **change}), pairs)
    losses = [loss for _, loss in done.progress.curves["loss"]["loss"]]
    assert losses[-1] < losses[0] / 2


def test_recall_of_training_in_bfloat16_is_that_of_the_kept_weights_in_float32(pairs):
    settings = SETTINGS.model_copy(update={"precision": "bf16", "rate_max": 0.002})
    kept, done = run(settings, pairs)
    for epoch in (4, 8):
        encoders = Encoders(TOKENS, pairs.features.shape[1], settings.shape)
        encoders.load_state_dict(kept[epoch])
        found = done.recall[epoch]
        assert found == validate(encoders, pairs, "cosine")
    assert found["caption_to_image"]["r1"] < 100


@pytest.mark.parametrize(
    ("side", "weights"), [("images", "images.linear.weight"), ("captions", "captions.recurrent.onward.weight_hh_l0")]
)
def test_clipping_holds_back_its_own_side_only(pairs, side, weights):
    """Adam hides a gradient's scale, except where the limit brings it below Adam's own epsilon."""
    torch.manual_seed(SETTINGS.seed)
    encoders = Encoders(TOKENS, pairs.features.shape[1], SETTINGS.shape)
    initialise(encoders, SETTINGS.initialisation)
    start = encoders.state_dict()
    clipped, _ = run(SETTINGS.model_copy(update={"epochs": 4, f"clip_{side}": 1e-12}), pairs)
    for name in ("images.linear.weight", "captions.recurrent.onward.weight_hh_l0"):
        moved = (clipped[4][name] - start[name]).abs().max().item()
        assert moved < 1e-4 if name == weights else moved > 1e-2


def test_more_pictures_in_a_batch_than_there_are_is_refused(pairs):
    with pytest.raises(TrainingError, match=r"train\.batch = 25 is more than the 24 training pictures"):
        run(SETTINGS.model_copy(update={"batch": 25}), pairs)


def test_loss_of_nan_stops_the_training(pairs):
    broken = pairs.features.copy()
    broken[3, 2] = np.inf
    wrong = Pairs(**{**pairs.__dict__, "features": broken})
    with pytest.raises(TrainingError, match=r"the loss is not finite at batch \d+ \(epoch 1\), learning rate"):
        train(SETTINGS, wrong, pairs, tokens=TOKENS, device=torch.device("cpu"))


def test_copies_of_a_picture_are_no_mismatches():
    features, rows = np.array([[1, 2], [3, 4], [1, 2], [-0.0, 0]], np.float32), np.arange(4)
    copies = Pairs([""] * 4, features, [""] * 4, [np.ones(1, np.int64)] * 4, rows * 0, rows)
    assert CaptionTask(SETTINGS, copies, TOKENS, torch.device("cpu")).same_picture.tolist() == [0, 1, 0, 3]


def test_features_too_large_for_the_gpu_stay_and_are_logged(monkeypatch, caplog):
    pretended = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100, 1000))
    features = torch.zeros(10, 3)
    assert _near(features, pretended) is features
    assert "do not fit on the GPU" in caplog.text
    assert _near(features, torch.device("cpu")) is features
