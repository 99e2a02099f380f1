"""A run that collapsed is stopped; one that learns while its loss looks collapsed is not."""

import numpy as np
import pytest
import torch
from small_pictures import TOKENS, spelled

from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.training.checkpoint import Checkpoint
from sightword.vse.training.divergence import at_chance
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import train

SETTINGS = TrainSettings(
    embedding=6, hidden=12, attention=8, batch=8, initialisation="vsepp", loss="hardest", reduction="sum",
    clip_images=None, clip_captions=None, schedule="step", cycle=1,
)  # fmt: skip
COLLAPSED = 2 * SETTINGS.batch * SETTINGS.margin


def run(pairs: Pairs, kept: list[int], checkpoint: Checkpoint | None = None, **settings: object):
    asked = SETTINGS.model_copy(update=settings)
    device = torch.device("cpu")
    return train(
        asked,
        pairs,
        pairs,
        tokens=TOKENS,
        device=device,
        keep=lambda epoch, _: kept.append(epoch),
        checkpoint=checkpoint,
    )


def test_collapsed_run_is_reported_with_a_remedy():
    kept: list[int] = []
    with pytest.raises(TrainingError) as caught:
        run(spelled(base=1, spread=1e-6), kept, epochs=20, rate_max=0.02)
    text = str(caught.value)
    assert kept == list(range(1, 7))  # then all of its last five epochs had losses within 1 %
    assert "training is stuck: for 5 epochs, up to epoch 7, all pairs of a batch score alike" in text
    assert "2 * batch * margin" in text
    assert "no better than chance (mean rank of the right picture 12." in text
    assert "train.warm_up" in text
    assert "train.initialisation: vsepp" in text


def test_run_that_learns_at_the_loss_of_collapse_goes_on():
    history = run(spelled(base=1, spread=0.1), [], epochs=20, rate_max=0.002)
    losses = np.array([loss for _, loss in history.progress.curves["loss"]["loss"]]).reshape(20, 6)
    assert (np.abs(losses[7:] / COLLAPSED - 1) < 0.012).all()  # thirteen epochs, and to the end
    recall = [entry["caption_to_image"]["r10"] for entry in history.recall.values()]
    assert recall[0] < 45  # 10 of 24 is chance
    assert recall[-1] == 100


def test_count_of_stuck_epochs_survives_a_kill(tmp_path):
    class KilledError(BaseException):
        """Stands for SIGKILL: nothing catches it."""

    def keep(epoch: int, _: object) -> None:
        if epoch == 5:
            raise KilledError

    pairs = spelled(base=1, spread=1e-6)
    settings = {"epochs": 20, "rate_max": 0.02}
    with pytest.raises(KilledError):
        train(SETTINGS.model_copy(update=settings), pairs, pairs, tokens=TOKENS, device=torch.device("cpu"), keep=keep,
              checkpoint=Checkpoint(tmp_path))  # fmt: skip
    with pytest.raises(TrainingError, match="up to epoch 7"):
        run(pairs, [], Checkpoint(tmp_path), **settings)


@pytest.mark.parametrize("pictures", [2, 24, 1000])
def test_chance_is_one_standard_error_of_independent_ranks(pictures):
    random = np.random.default_rng(0)
    means = random.integers(1, pictures, size=(4000, pictures), endpoint=True).mean(axis=1)
    found = np.mean([at_chance(mean, pictures) for mean in means])
    assert found == pytest.approx(0.841, abs=0.1 if pictures == 2 else 0.02)  # of a normal distribution
    assert at_chance(pictures, pictures)  # equal scores: all ties count against


def test_the_mean_ranks_of_a_run_that_learns_are_better_than_chance():
    """Flickr8k, the hardest mismatch, standardised features, epochs 1 to 8 (study/pages/objectives.md)."""
    for mean_rank in (375.5, 345.3, 304.0, 250.2, 204.8, 159.4, 105.0, 78.1):
        assert not at_chance(mean_rank, 1000)
