"""Where experiments run side by side: one slot for each GPU that is visible, or shares of the cores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sightword.errors import SetupError
from sightword.machine import Machine, current

CORES = 2
"""Cores of a slot on a CPU, where their number is not given."""
MEMORY = 4 * 2**30
"""Bytes of memory of such a slot."""
MOST = 256


@dataclass(frozen=True)
class Slot:
    """A place for one experiment at a time."""

    number: int
    """From 1."""
    place: str
    """``cpu``, or the GPU."""
    environment: dict[str, str]
    """What its processes find set beside what is set here."""


def choose(wanted: int | None, experiments: int, *, environment: Mapping[str, str] = os.environ) -> list[Slot]:
    """The slots of this machine.

    Args:
        wanted: how many; default: one for each visible GPU, else one for every two cores and 4 GiB of memory.
        experiments: how many the whole sweep has; no more slots than that. Not those that are left: a half-done
            training goes on only with as many threads as it began with.
        environment: of this process.

    Raises:
        SetupError: a setting of the machine is wrong, or no GPU is there though one was asked for.
    """
    machine = current()
    gpus = [] if machine.device == "cpu" else _gpus(machine.device, environment)
    if machine.device.startswith("cuda") and not gpus:
        raise SetupError(f"SIGHTWORD_DEVICE={machine.device}: no such GPU here", todo="Set SIGHTWORD_DEVICE=cpu.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = wanted or len(gpus) or max(1, min(cores // CORES, _memory() // MEMORY))
    count = max(1, min(count, experiments, MOST))
    share = str(max(1, cores // count))
    return [Slot(number + 1, *_place(gpus, number, share, machine, environment)) for number in range(count)]


def _place(
    gpus: Sequence[str], number: int, share: str, machine: Machine, environment: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """Where a slot works, and its environment: what the user has set of threads stays."""
    own = {"SIGHTWORD_STORE": str(machine.store), "SIGHTWORD_SCRATCH": str(machine.scratch)}
    for variable in ("SIGHTWORD_THREADS", "SIGHTWORD_WORKERS"):
        own[variable] = environment.get(variable) or share
    if not gpus:
        return "cpu", own
    gpu = gpus[number % len(gpus)]
    # `cuda`, not `auto`: an experiment that cannot have its GPU must not go on slowly on the CPU
    return f"GPU {gpu}", own | {"CUDA_VISIBLE_DEVICES": gpu, "SIGHTWORD_DEVICE": "cuda"}


def _gpus(device: str, environment: Mapping[str, str]) -> list[str]:
    """The GPUs that torch sees, as ``CUDA_VISIBLE_DEVICES`` names them."""
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is not None and listed.strip() in ("", "-1"):
        return []
    count = _count()
    names = [name.strip() for name in listed.split(",")][:count] if listed else [str(number) for number in range(count)]
    _, _, number = device.partition(":")
    return names[int(number) : int(number) + 1] if number else names


def _count() -> int:
    """How many GPUs torch sees; asked in a process of its own, which leaves none of them in use here."""
    code = "import torch; print(torch.cuda.device_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    text = done.stdout.strip()
    if done.returncode or not text.isdigit():
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SetupError(f"torch cannot say what GPUs there are: {said[-1]}", todo="Set SIGHTWORD_DEVICE=cpu.")
    return int(text)


def _memory() -> int:
    """Bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return MEMORY
