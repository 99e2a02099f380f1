"""Slots: each GPU is one process's alone, cores are shared out, and what the user has set stays."""

from __future__ import annotations

import os

import pytest

from pipeline.experiments import slots
from sightword.errors import SetupError


@pytest.fixture
def machine(monkeypatch):
    """A function that sets what this machine has."""

    def set_up(gpus=0, cores=8, memory=2**40, device=None):
        monkeypatch.setattr(slots, "_count", lambda: gpus)
        monkeypatch.setattr(slots, "_memory", lambda: memory)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        monkeypatch.delenv("SIGHTWORD_DEVICE")
        if device:
            monkeypatch.setenv("SIGHTWORD_DEVICE", device)

    return set_up


def choose(wanted=None, experiments=100, **environment):
    return slots.choose(wanted, experiments, environment=environment)


def of(found, variable):
    return [slot.environment.get(variable) for slot in found]


def test_each_visible_gpu_is_one_slot(machine):
    machine(gpus=3, cores=8)
    found = choose()
    assert of(found, "CUDA_VISIBLE_DEVICES") == ["0", "1", "2"]
    assert of(found, "SIGHTWORD_DEVICE") == ["cuda"] * 3
    assert of(found, "SIGHTWORD_THREADS") == of(found, "SIGHTWORD_WORKERS") == ["2"] * 3
    assert [slot.place for slot in found] == ["GPU 0", "GPU 1", "GPU 2"]


def test_only_the_gpus_that_are_visible_here_are_used(machine):
    machine(gpus=2)
    assert of(choose(CUDA_VISIBLE_DEVICES="5, GPU-ab"), "CUDA_VISIBLE_DEVICES") == ["5", "GPU-ab"]
    assert of(choose(CUDA_VISIBLE_DEVICES="5,GPU-ab,9"), "CUDA_VISIBLE_DEVICES") == ["5", "GPU-ab"]  # torch sees two
    for none in ("", "-1"):
        assert of(choose(1, CUDA_VISIBLE_DEVICES=none), "CUDA_VISIBLE_DEVICES") == [None]


def test_a_device_that_is_named_is_the_only_one(machine):
    machine(gpus=4, device="cuda:2")
    assert of(choose(), "CUDA_VISIBLE_DEVICES") == ["2"]
    machine(gpus=4, device="cpu")
    assert of(choose(2), "CUDA_VISIBLE_DEVICES") == [None, None]


@pytest.mark.parametrize(("gpus", "device"), [(0, "cuda"), (2, "cuda:2")])
def test_a_gpu_that_is_not_there_is_told(machine, gpus, device):
    machine(gpus=gpus, device=device)
    with pytest.raises(SetupError, match="no such GPU"):
        choose()


def test_more_slots_than_gpus_share_them_and_fewer_leave_some(machine):
    machine(gpus=2)
    assert of(choose(5), "CUDA_VISIBLE_DEVICES") == ["0", "1", "0", "1", "0"]
    assert of(choose(1), "CUDA_VISIBLE_DEVICES") == ["0"]


@pytest.mark.parametrize(
    ("cores", "memory", "wanted", "experiments", "count", "threads"),
    [
        (2, 2**40, None, 9, 1, "2"),
        (16, 2**40, None, 9, 8, "2"),
        (16, 2**40, None, 3, 3, "5"),
        (16, 9 * 2**30, None, 9, 2, "8"),
        (1, 2**20, None, 9, 1, "1"),
        (2, 2**40, 2, 9, 2, "1"),
        (2, 2**40, 5, 9, 5, "1"),
        (2, 2**40, 5, 1, 1, "2"),
    ],
)
def test_cores_are_shared_out(machine, cores, memory, wanted, experiments, count, threads):
    machine(cores=cores, memory=memory)
    found = choose(wanted, experiments)
    assert len(found) == count
    assert set(of(found, "SIGHTWORD_THREADS")) == {threads}


def test_what_the_user_has_set_stays(machine, monkeypatch, tmp_path):
    machine(cores=8)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTWORD_SCRATCH", "half-done")
    (slot,) = choose(1, SIGHTWORD_THREADS="3")
    assert slot.environment["SIGHTWORD_THREADS"] == "3"
    assert slot.environment["SIGHTWORD_WORKERS"] == "8"
    assert slot.environment["SIGHTWORD_SCRATCH"] == str(tmp_path / "half-done")  # found from the copies too


def test_torch_is_asked_in_a_process_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert slots._count() == 0
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setattr(slots.sys, "executable", "/bin/false")
    with pytest.raises(SetupError, match="torch cannot list"):
        slots._count()
