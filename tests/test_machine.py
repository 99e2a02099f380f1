"""Settings of the machine from environment variables."""

from __future__ import annotations

import pytest

from sightword import machine
from sightword.errors import SetupError


def test_one_machine_is_the_default(monkeypatch) -> None:
    for name in ("SIGHTWORD_ENGINE", "SIGHTWORD_RAY_CPUS", "SIGHTWORD_RAY_GPUS"):
        monkeypatch.delenv(name, raising=False)
    here = machine.current()
    assert (here.engine, here.ray_cpus, here.ray_gpus) == ("local", 1, 0)


@pytest.mark.parametrize(("text", "number"), [("0.25", 0.25), (".5", 0.5), ("1", 1), ("2", 2), ("2.0", 2)])
def test_a_worker_of_ray_has_gpus_or_a_fraction_of_one(monkeypatch, text, number) -> None:
    monkeypatch.setenv("SIGHTWORD_ENGINE", "ray")
    monkeypatch.setenv("SIGHTWORD_RAY_GPUS", text)
    monkeypatch.setenv("SIGHTWORD_RAY_CPUS", "4")
    here = machine.current()
    assert (here.engine, here.ray_cpus, here.ray_gpus) == ("ray", 4, number)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("SIGHTWORD_ENGINE", "spark", "SIGHTWORD_ENGINE=spark: no such engine; expected local or ray"),
        ("SIGHTWORD_RAY_CPUS", "0", "SIGHTWORD_RAY_CPUS=0: not a usable number; expected a whole number of at least 1"),
        ("SIGHTWORD_RAY_GPUS", "1.5", "SIGHTWORD_RAY_GPUS=1.5: not a usable number; expected a fraction such as 0.25"),
        ("SIGHTWORD_RAY_GPUS", "-1", "SIGHTWORD_RAY_GPUS=-1: not a usable number"),
        ("SIGHTWORD_RAY_GPUS", "all", "SIGHTWORD_RAY_GPUS=all: not a usable number"),
    ],
)
def test_an_unusable_value_is_told(monkeypatch, name, text, message) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(SetupError) as caught:
        machine.current()
    assert str(caught.value).startswith(message)
