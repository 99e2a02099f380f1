"""A training that is interrupted goes on to the bit, and a damaged checkpoint is never used."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from sightword.errors import TrainingError
from sightword.features.pairs import Pairs
from sightword.training.checkpoint import Checkpoint, Progress, open_checkpoint
from sightword.vse.training import task as loop
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import train

SETTINGS = TrainSettings(
    embedding=5, hidden=8, attention=6, batch=6, epochs=4, cycle=2, rate_max=0.02, clip_images=None, clip_captions=0.5,
    loss="infonce", dropout_features=0.2, dropout_states=0.2, weight_decay=0.01, standardise="training",
)  # fmt: skip


class KilledError(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    random = np.random.default_rng(0)
    return Pairs(
        image_ids=[f"{place:02d}" for place in range(20)],
        features=random.normal(size=(20, 7)).astype(np.float32),
        texts=[""] * 40,
        ids=[random.integers(2, 15, random.integers(2, 9)) for _ in range(40)],
        numbers=np.tile([0, 1], 20),
        image_of_caption=np.repeat(np.arange(20), 2),
    )


def run(pairs: Pairs, checkpoint: Checkpoint | None, settings: TrainSettings = SETTINGS):
    kept: dict[int, dict[str, torch.Tensor]] = {}
    shown = []

    def keep(epoch, encoders) -> None:
        kept[epoch] = {name: value.clone() for name, value in encoders.state_dict().items()}

    done = (checkpoint and checkpoint.load()) or [Progress()]
    _, history = train(
        settings, pairs, pairs, tokens=15, device=torch.device("cpu"), keep=keep, checkpoint=checkpoint,
        show=lambda curves: shown.append(len(curves.recall)),
    )  # fmt: skip
    # Each epoch as it ends, and at the start what an earlier process has done.
    assert shown == list(range(max(1, done[0].epoch), settings.epochs + 1))
    return kept, history


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"loss": "hinge", "dropout_states": 0.0, "weight_decay": 0.0, "average": "swa"},
        {"loss": "hardest", "warm_up": 1, "similarity": "order", "average": "ema", "average_start": 1},
        {"second_caption": True, "schedule": "cosine"},
        {"cell": "ngrams", "ngram_buckets": 64, "second_caption": True},
    ],
)
def test_killed_after_any_batch_it_ends_alike(pairs, tmp_path, monkeypatch, change) -> None:
    settings = SETTINGS.model_copy(update=change)
    wanted, curves = run(pairs, None, settings)
    monkeypatch.setattr(loop, "SECONDS", 0.0)  # a checkpoint after each batch
    honest = loop.Run.step
    steps = 4 * 8
    for fatal in (1, 2, 9, steps // 2, steps - 1):
        checkpoint = Checkpoint(tmp_path / str(fatal))
        checkpoint.folder.mkdir()
        done = 0

        def step(self, *arguments, fatal=fatal):
            nonlocal done
            done += 1
            if done == fatal:
                raise KilledError
            return honest(self, *arguments)

        monkeypatch.setattr(loop.Run, "step", step)
        with pytest.raises(KilledError):
            run(pairs, checkpoint, settings)
        torch.rand(5)  # another process would have another random state
        found, again = run(pairs, checkpoint, settings)
        assert done == fatal + steps - (fatal - 1)  # no batch was done twice
        assert same(found[4], wanted[4])
        assert again == curves


def test_with_one_caption_an_epoch_and_steps_of_the_rate_it_goes_on_alike_too(pairs, tmp_path, monkeypatch) -> None:
    settings = SETTINGS.model_copy(
        update={
            "captions_per_epoch": "one",
            "schedule": "step",
            "step_epochs": 2,
            "bidirectional": False,
            "pooling": "last",
        }
    )
    wanted, curves = run(pairs, None, settings)
    monkeypatch.setattr(loop, "SECONDS", 0.0)
    honest, done = loop.Run.step, 0

    def step(self, *arguments):
        nonlocal done
        done += 1
        if done == 6:
            raise KilledError
        return honest(self, *arguments)

    monkeypatch.setattr(loop.Run, "step", step)
    checkpoint = Checkpoint(tmp_path)
    with pytest.raises(KilledError):
        run(pairs, checkpoint, settings)
    found, again = run(pairs, checkpoint, settings)
    assert done == 4 * 4 + 1
    assert same(found[4], wanted[4])
    assert again == curves


def test_a_checkpoint_that_is_damaged_is_set_aside(pairs, tmp_path, caplog) -> None:
    wanted, curves = run(pairs, None)
    folder = tmp_path / "training"
    folder.mkdir()
    checkpoint = Checkpoint(folder)
    run(pairs, checkpoint)
    [state] = folder.glob("state-*")

    def flipped() -> None:
        data = bytearray(state.read_bytes())
        data[-3] ^= 1
        state.write_bytes(data)

    def garbled() -> None:
        (folder / "checkpoint.json").write_text("{")

    def missing() -> None:
        state.unlink()

    def another() -> None:
        index = json.loads((folder / "checkpoint.json").read_text())
        (folder / "checkpoint.json").write_text(json.dumps({**index, "schema": 99}))

    for damage in (flipped, garbled, missing, another):
        run(pairs, checkpoint)
        [state] = folder.glob("state-*")
        damage()
        caplog.clear()
        found, again = run(pairs, checkpoint)
        assert "set aside" in caplog.text, damage.__name__
        assert (tmp_path / "training.damaged").is_dir()
        assert same(found[4], wanted[4])
        assert again == curves


def test_half_a_checkpoint_leaves_the_one_before(tmp_path, monkeypatch) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(Progress(epoch=1), {"weights": torch.ones(3)})

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sightword.training.checkpoint.write_json", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(Progress(epoch=2), {"weights": torch.zeros(3)})
    found = checkpoint.load()
    assert found is not None
    assert found[0].epoch == 1
    assert torch.equal(found[1]["weights"], torch.ones(3))


def test_other_inputs_have_another_folder_and_the_same_ones_the_same(tmp_path) -> None:
    folders = []
    for inputs in ({"a": 1}, {"a": 2}, {"a": 1}):
        with open_checkpoint(tmp_path, inputs) as checkpoint:
            folders.append(checkpoint.folder)
    assert folders[0] == folders[2] != folders[1]


def test_two_at_once_do_not_share(tmp_path, caplog) -> None:
    with open_checkpoint(tmp_path, {}) as one, open_checkpoint(tmp_path, {}) as two:
        assert one.folder != two.folder
        assert "another process trains with the same inputs" in caplog.text
    assert not two.folder.exists()
    assert one.folder.exists()
    one.done()
    assert not one.folder.exists()


def test_a_number_that_is_none_tells_the_norms_before(pairs, monkeypatch) -> None:
    broken = Pairs(**{**pairs.__dict__, "features": pairs.features * np.float32(1e30)})
    hot = SETTINGS.model_copy(
        update={"loss": "hinge", "standardise": "none", "rate_max": 1e30, "rate_min": 1e29, "clip_captions": None}
    )
    with pytest.raises(TrainingError, match=r"no number at batch \d+ .*gradient norms of the batch before: "):
        run(broken, None, hot)


def test_a_collapsed_model_is_said_and_not_trained_on(pairs) -> None:
    alike = Pairs(**{**pairs.__dict__, "ids": [np.array([3, 4])] * 40})
    settings = SETTINGS.model_copy(update={"loss": "hardest", "epochs": 6, "standardise": "none", "dropout_states": 0.0,
                                           "dropout_features": 0.0, "rate_max": 1e-9, "rate_min": 1e-9})  # fmt: skip
    features = np.ones_like(pairs.features) + np.arange(20, dtype=np.float32)[:, None] * 1e-4
    with pytest.raises(TrainingError, match=r"stuck: for 5 epochs, up to epoch 5, .*train\.warm_up"):
        run(Pairs(**{**alike.__dict__, "features": features}), None, settings)


def test_tensors_survive_as_they_are(tmp_path) -> None:
    checkpoint = Checkpoint(tmp_path)
    state = {"a": torch.randn(3, 4), "b": torch.tensor(7.0), "random": torch.get_rng_state(), "none": torch.empty(0)}
    checkpoint.save(Progress(epoch=2, batches=3, history={"loss": [(1, 0.1)]}), state)
    found = checkpoint.load()
    assert found is not None
    progress, tensors = found
    assert (progress.epoch, progress.batches, progress.history) == (2, 3, {"loss": [[1, 0.1]]})
    assert same(tensors, state)
