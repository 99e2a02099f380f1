"""The training runs on a GPU: the losses of a CPU, equal bytes, a resumed run. Hypernyms train on CPUs only."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import small_tasks
import torch
from small_ground import textual
from small_tasks import CPU, PLAIN, TASKS, run

from sightword.grounded.training.scenario import Textual
from sightword.training import engine
from sightword.training.checkpoint import Checkpoint
from sightword.training.engine import Task

pytestmark = pytest.mark.gpu


ON_GPU = [name for name in TASKS if not name.startswith("embed")]


SHORT = {"train": {"dropout_states": 0.0, "dropout_features": 0.0}, "entail": {"validate_every": 3}}
"""Changes of a run of three steps, by the first word of its name: no dropout, whose random numbers differ by device."""


SPREAD = 30
"""The factor of the word vectors of an untrained encoder, whose sentences are else so alike that correlations of their
cosines are rounding: float32 and float64 differ in the third digit on a CPU too."""


BF16 = ["train", "train, mean of epochs", "skipthought", "entail", "ground"]


class KilledError(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def first_losses(monkeypatch: pytest.MonkeyPatch, name: str, device: torch.device, **changes: Any) -> list[float]:
    """The losses of the first three steps."""
    found: list[float] = []
    honest = TASKS[name][0].step

    def step(self: Task[Any], number: int) -> dict[str, Any]:
        if number == 3:
            raise KilledError
        losses = honest(self, number)
        watch = getattr(self, "watch", None)
        values = [watch._unread[-1][0]] if watch else losses.values()
        found.extend(map(float, values))
        return losses

    def spread() -> Textual:
        made = textual()
        with torch.no_grad():
            made.part.captions.embedding.weight.mul_(SPREAD)
            made.network.captions.embedding.weight.mul_(SPREAD)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(small_tasks, "textual", spread)
        patch.setattr(TASKS[name][0], "step", step)
        with pytest.raises(KilledError):
            run(name, device=device, **SHORT.get(re.split(r"\W", name)[0], {}) | changes)
    return found


@pytest.mark.parametrize("name", ON_GPU)
def test_losses_of_three_steps_equal_those_of_a_cpu(gpu, monkeypatch, name):
    wanted, found = (first_losses(monkeypatch, name, device) for device in (CPU, gpu))
    assert len(found) >= 3
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", BF16)
def test_first_loss_in_bfloat16_is_near_that_in_float32(gpu, monkeypatch, name):
    exact, found = (first_losses(monkeypatch, name, gpu, precision=each) for each in ("fp32", "bf16"))
    assert all(map(math.isfinite, found))
    assert found[0] == pytest.approx(exact[0], rel=0.03)
    assert found != exact


def assert_same(one, other):
    assert one[0].keys() == other[0].keys()
    assert all(torch.equal(value, other[0][name]) for name, value in one[0].items())
    assert one[1] == other[1]


@pytest.mark.parametrize(
    ("name", "precision"), [*((name, "fp32") for name in ON_GPU), *((name, "bf16") for name in BF16)]
)
def test_two_runs_have_the_same_bytes(gpu, name, precision):
    changes = {"precision": precision} if precision == "bf16" else {}
    one, other = run(name, device=gpu, **changes), run(name, device=gpu, **changes)
    assert all(value.device.type in ("cuda", "cpu") for value in one[0].values())
    assert_same(one, other)


@pytest.mark.parametrize("name", [name for name in PLAIN if name in ON_GPU])
def test_killed_run_goes_on_to_the_same_bytes(gpu, monkeypatch, tmp_path, name):
    wanted = run(name, device=gpu)
    honest, fatal = TASKS[name][0].step, wanted[1].steps // 2
    checkpoint = Checkpoint(tmp_path)

    def step(self: Task[Any], number: int) -> Any:
        if number == fatal:
            raise KilledError
        return honest(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "SECONDS", 0.0)
        patch.setattr(TASKS[name][0], "step", step)
        with pytest.raises(KilledError):
            run(name, checkpoint, device=gpu)
    torch.rand(5, device=gpu)  # another process would have another random state
    assert_same(run(name, checkpoint, device=gpu), wanted)
