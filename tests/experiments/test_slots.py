"""Slots: each GPU is one process's alone, cores are shared out, and what the user has set stays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipeline.experiments import slots
from sightword import machine as machines


@pytest.fixture
def machine(monkeypatch):
    """A function that sets what this machine has."""
    sizes = {"SC_PAGE_SIZE": 1}

    def set_up(gpus=0, cores=8, memory=2**40, device=None):
        monkeypatch.setattr(slots, "_count", lambda: gpus)
        sizes["SC_PHYS_PAGES"] = memory
        monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        monkeypatch.delenv("SIGHTWORD_DEVICE", raising=False)
        if device:
            monkeypatch.setenv("SIGHTWORD_DEVICE", device)

    return set_up


def choose(wanted=None, experiments=100, **environment):
    return slots.choose(wanted, experiments, environment=environment)


@pytest.mark.parametrize(
    ("gpus", "device", "visible", "wanted", "expected"),
    [
        (3, None, None, None, "0,1,2"),
        (2, None, "5, GPU-ab", None, "5,GPU-ab"),
        (2, None, "-1", 1, None),
        (4, "cuda:2", None, None, "2"),
        (4, "cpu", None, 2, None),
        (2, None, None, 5, "0,1,0,1,0"),
    ],
)
def test_each_visible_gpu_is_one_slot(machine, gpus, device, visible, wanted, expected):
    machine(gpus, device=device)
    found = choose(wanted, **{} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert found.environment.get(slots.GPUS) == expected
    assert found.count == len((expected or "," * ((wanted or 1) - 1)).split(","))


@pytest.mark.parametrize(
    ("cores", "memory", "wanted", "experiments", "count", "threads"),
    [
        (2, 2**40, None, 9, 1, "2"),
        (16, 2**40, None, 9, 8, "2"),
        (16, 9 * 2**30, None, 9, 2, "8"),
        (2, 2**40, 2, 9, 2, "1"),
        (2, 2**40, 5, 1, 1, "2"),
    ],
)
def test_cores_are_shared_out(machine, cores, memory, wanted, experiments, count, threads):
    machine(cores=cores, memory=memory)
    found = choose(wanted, experiments)
    assert (found.count, found.environment["SIGHTWORD_THREADS"]) == (count, threads)


def test_what_the_user_has_set_stays(machine, monkeypatch, tmp_path):
    machine(cores=8)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTWORD_SCRATCH", "half-done")
    found = choose(1, SIGHTWORD_THREADS="3").environment
    assert (found["SIGHTWORD_THREADS"], found["SIGHTWORD_WORKERS"]) == ("3", "8")
    assert found["SIGHTWORD_SCRATCH"] == str(tmp_path / "half-done")  # found from DVC's workspaces too


TAKES = """
import os, sys
from pipeline.experiments.slots import take_gpu
from sightword.machine import current
take_gpu(current())
print(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("SIGHTWORD_DEVICE"), flush=True)
sys.stdin.read()
"""


def test_a_process_takes_a_gpu_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTWORD_SCRATCH", str(tmp_path))
    monkeypatch.setenv(slots.GPUS, "3,7,3")
    monkeypatch.delenv("SIGHTWORD_DEVICE")

    def start():
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", TAKES], stdin=pipe, stdout=pipe, text=True)

    running = [start() for _ in range(3)]
    assert sorted(one.stdout.readline() for one in running) == ["3 cuda\n", "3 cuda\n", "7 cuda\n"]
    waiting = start()
    running[0].kill()
    running[0].communicate()
    assert waiting.stdout.readline().endswith(" cuda\n")
    for one in (*running[1:], waiting):
        one.communicate()
    monkeypatch.delenv(slots.GPUS)
    here = machines.current()
    assert slots.take_gpu(here) is here
