"""The loop of all systems: killed and continued, curves, finite losses, the best weights, and checkpoints."""

from __future__ import annotations

import math
import random

import pytest
import torch
from small_tasks import PLAIN, TASKS, run

from sightword.errors import TrainingError
from sightword.settings import Settings
from sightword.training import engine
from sightword.training.checkpoint import Checkpoint
from sightword.training.engine import Task, Validation
from sightword.vse.training.task import CaptionTask


class KilledError(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def killed_at(monkeypatch, name, fatal, checkpoint):
    """Begin a run, with a checkpoint after each batch, that ends within batch ``fatal``; return the batches done."""
    task, done = TASKS[name][0], []
    honest = task.step

    def step(self, number):
        if number == fatal:
            raise KilledError
        done.append(number)
        return honest(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "SECONDS", 0.0)
        patch.setattr(task, "step", step)
        with pytest.raises(KilledError):
            run(name, checkpoint)
    return done


def counted(monkeypatch, name, checkpoint):
    """Go on to the end; return the result, and the batches done."""
    task, done = TASKS[name][0], []
    honest = task.step
    with monkeypatch.context() as patch:
        patch.setattr(task, "begin", lambda self: done.append("begins anew"))
        patch.setattr(task, "step", lambda self, number: (done.append(number), honest(self, number))[1])
        return run(name, checkpoint), done


def assert_same(one, other):
    assert one[0].keys() == other[0].keys()
    assert all(value.numpy().tobytes() == other[0][name].numpy().tobytes() for name, value in one[0].items())
    assert one[1] == other[1]
    assert [list(columns) for columns in one[1].curves.values()] == [*map(list, other[1].curves.values())]


@pytest.mark.parametrize("name", TASKS)
def test_run_killed_at_any_batch_ends_with_the_same_bytes(monkeypatch, tmp_path, name):
    wanted = run(name)
    steps = wanted[1].steps
    draw = random.Random(name)
    for fatal in (1, draw.randrange(2, steps)):
        checkpoint = Checkpoint(tmp_path / str(fatal))
        checkpoint.folder.mkdir()
        first = killed_at(monkeypatch, name, fatal, checkpoint)
        torch.rand(5)  # another process would have another random state
        found, rest = counted(monkeypatch, name, checkpoint)
        assert first + rest == list(range(steps))  # no batch was done twice
        assert_same(found, wanted)


@pytest.mark.parametrize("name", PLAIN)
def test_loss_not_finite_is_one_message_and_never_in_a_checkpoint(monkeypatch, tmp_path, name):
    task = TASKS[name][0]
    honest = task.step

    def step(self, number):
        losses = honest(self, number)
        if number == 3 and isinstance(self, CaptionTask):
            self.watch.add(torch.tensor(math.nan), torch.ones(2))
        return {part: value * (math.nan if number == 3 else 1) for part, value in losses.items()}

    monkeypatch.setattr(engine, "SECONDS", 0.0)
    monkeypatch.setattr(task, "step", step)
    between = r"loss is (not finite at batch 5|not a finite number between batch \d and 4)"
    with pytest.raises(TrainingError, match=between) as caught:
        run(name, Checkpoint(tmp_path))
    assert "ower " in str(caught.value)  # the rate
    progress, tensors = Checkpoint(tmp_path).load()
    assert progress.steps == 3
    assert all(values.isfinite().all() for key, values in tensors.items() if not key.startswith("task.watch.best"))


@pytest.mark.parametrize(
    ("name", "losses", "validations"),
    [
        ("train", list(range(1, 33)), [0, 8, 16, 24, 32]),
        ("skipthought", [8, 16, 24, 30], [0, 8, 16, 24, 30]),
        ("entail", [4, 8, 12, 16, 18], [0, 4, 8, 12, 16, 18]),
        ("ground", [6], [0, 3, 6]),
        ("embed", [7, 14, 21, 28, 35], [0, 7, 14, 21, 28, 35]),
    ],
)
def test_curves_have_points_at_the_batches_of_the_settings(name, losses, validations):
    _, progress = run(name)
    tables = {"train": "recall", "skipthought": "held_out"}
    for table, wanted in (("loss", losses), (tables.get(name, "dev"), validations)):
        assert [[done for done, _ in curve] for curve in progress.curves[table].values()] == [wanted] * len(
            progress.curves[table]
        )


@pytest.mark.parametrize("name", PLAIN)
def test_validation_of_the_untrained_model_leaves_the_weights_as_they_are(monkeypatch, name):
    wanted = run(name)
    task = TASKS[name][0]
    honest = task.validate
    with monkeypatch.context() as patch:
        patch.setattr(task, "validate", lambda self: honest(self) if self.progress.steps else None)
        found = run(name)
    assert found[0].keys() == wanted[0].keys()
    assert all(value.numpy().tobytes() == wanted[0][name].numpy().tobytes() for name, value in found[0].items())
    assert (found[1].best, found[1].best_step, found[1].notes) == (
        wanted[1].best, wanted[1].best_step, wanted[1].notes)  # fmt: skip
    for table, columns in wanted[1].curves.items():
        for column, points in columns.items():
            assert found[1].curves[table][column] == [point for point in points if point[0]]


class Toy(Task[Settings]):
    """One weight that grows by 1 with each batch; validations have the scores that are given."""

    def __init__(self, scores, steps=12, points=0, saves=False):
        self.network, self.scores, self.points = torch.nn.Linear(1, 1, bias=False), list(scores), points
        self.saves = saves
        torch.nn.init.zeros_(self.network.weight)
        super().__init__(Settings(), steps=steps, every=3, modules=self.network)

    def step(self, number):
        with torch.no_grad():
            self.network.weight += 1
        return {"loss": float(number), "other": torch.tensor(2.0 * number)}

    def validate(self):
        return Validation(score, {"after": float(self.progress.steps)}) if (score := self.scores.pop(0)) else None

    def weights(self):
        return self.network.state_dict()


@pytest.mark.parametrize(
    ("scores", "best", "after"),
    [([0, 1, 3, 3, 2], 3, 6), ([9, 1, 2, 3, 4], 4, 12), ([-9, -5, -6, -7, -8], -5, 3)],
)
def test_best_weights_are_those_of_the_first_best_score(scores, best, after):
    task = Toy(scores)
    engine.run(task)
    assert (task.progress.best, task.progress.best_step, task.progress.notes) == (best, after, {"after": after})
    assert task.best["weight"].item() == after
    assert task.network.weight.item() == 12


def test_point_of_a_curve_is_the_mean_since_the_point_before():
    task = Toy([None] * 5, points=2)
    engine.run(task)
    assert task.progress.curves["loss"]["loss"] == [(2, 0.5), (3, 2), (4, 3), (6, 4.5), (8, 6.5), (9, 8), (10, 9),
                                                    (12, 10.5)]  # fmt: skip
    assert [value / 2 for _, value in task.progress.curves["loss"]["other"]] == [
        value for _, value in task.progress.curves["loss"]["loss"]
    ]


def test_writing_checkpoints_takes_a_twentieth_of_the_time_at_most(monkeypatch, tmp_path):
    """A batch takes a second, and a checkpoint 10."""
    now, saved = [0.0], []
    monkeypatch.setattr(engine.time, "monotonic", lambda: now[0])
    honest = Toy.step

    def step(self, number):
        now[0] += 1
        return honest(self, number)

    def save(self, progress, _):
        saved.append(progress.steps)
        now[0] += 10

    monkeypatch.setattr(Toy, "step", step)
    monkeypatch.setattr(Checkpoint, "save", save)
    engine.run(Toy([None] * 201, steps=600), Checkpoint(tmp_path))
    assert saved == [60, 260, 460, 600]
