"""Settings of the machine and graphics cards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from looks import only, states

from pipeline.doctor import hardware
from pipeline.doctor.hardware import check_devices, check_settings, known_variables

CARD = {"name": "a card", "free": 10e9, "total": 80e9}
CPU = {"torch": "2.13.0+cpu", "cuda_build": None, "devices": []}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith("SIGHTWORD_") and name not in ("SIGHTWORD_STORE", "SIGHTWORD_CACHE", "SIGHTWORD_SCRATCH"):
            monkeypatch.delenv(name)


def test_defaults_are_fine(project) -> None:
    assert states(project.check(check_settings)) == {"ok"}


@pytest.mark.parametrize(
    ("name", "value", "state", "word"),
    [
        ("SIGHTWORD_THREADS", "many", "problem", "SIGHTWORD_THREADS=many"),
        ("SIGHTWORD_DEVICE", "gpu", "problem", "SIGHTWORD_DEVICE=gpu"),
        ("SIGHTWORD_THREADS", "4096", "warning", "4096 threads share"),
        ("SIGHTWORD_WORKERS", "4096", "warning", "4096 workers share"),
        ("SIGHTWORD_THREAD", "1", "warning", "nothing reads it"),
    ],
)
def test_wrong_settings(project, monkeypatch, name, value, state, word) -> None:
    monkeypatch.setenv(name, value)
    assert word in only(project.check(check_settings), state).what


def test_a_misspelt_variable_has_a_suggestion_and_documented_ones_are_known(project, repository, monkeypatch) -> None:
    import re

    monkeypatch.setenv("SIGHTWORD_SCRACH", "x")
    assert "SIGHTWORD_SCRATCH" in only(project.check(check_settings), "warning").todo
    documented = set(re.findall(r"\bSIGHTWORD_[A-Z_]+", (repository / "docs/machine.md").read_text()))
    assert documented <= known_variables()


def driver(monkeypatch: pytest.MonkeyPatch, *, there: bool) -> None:
    monkeypatch.setattr(hardware, "DRIVERS", (Path("/") if there else Path("/no/such/driver"),))


def test_a_machine_without_a_card_is_fine(project, monkeypatch) -> None:
    driver(monkeypatch, there=False)
    project.facts["torch"] = CPU
    assert "no CUDA device" in only(project.check(check_devices), "ok").what


@pytest.mark.parametrize(
    ("facts", "there", "device", "state", "word"),
    [
        (CPU, True, "auto", "warning", "built for the CPU only"),
        ({**CPU, "cuda_build": "13.0"}, True, "auto", "warning", "torch is built for CUDA 13.0"),
        (CPU, False, "cuda", "problem", "no NVIDIA driver"),
        ({**CPU, "devices": [CARD]}, True, "cuda:1", "problem", "there are 1 CUDA devices"),
        ({**CPU, "devices": [CARD]}, True, "auto", "ok", "10.0 GB of 80.0 GB free"),
    ],
)
def test_cards_and_drivers(project, monkeypatch, facts, there, device, state, word) -> None:
    driver(monkeypatch, there=there)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("SIGHTWORD_DEVICE", device)
    project.facts["torch"] = facts
    assert word in only(project.check(check_devices), state).what
