"""Slots, in which experiments run side by side: one for each visible GPU, or shares of the cores."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from sightword.errors import SetupError
from sightword.machine import cores, current
from sightword.messages import last_line

CORES = 2
"""Default number of cores of a slot on a CPU."""
MEMORY = 4 * 2**30
"""Default bytes of memory of a slot on a CPU."""
MOST = 256


@dataclass(frozen=True)
class Slot:
    """A place for one experiment at a time."""

    number: int
    """From 1."""
    place: str
    """``cpu``, or ``GPU`` with its number."""
    environment: dict[str, str]
    """Additional environment variables of its processes."""


def choose(wanted: int | None, experiments: int, *, environment: Mapping[str, str] = os.environ) -> list[Slot]:
    """Return the slots of this machine; the environment's settings of threads and workers stay.

    Args:
        wanted: the number of slots; default: one for each visible GPU, else for every two cores and 4 GiB of memory.
        experiments: the number of experiments in the whole sweep, which is the most slots. The number of unfinished
            ones would change between two runs, and a training run resumes only with its first number of threads.
        environment: the environment of this process.

    Raises:
        SetupError: a setting of the machine is wrong, or the requested GPU does not exist.
    """
    machine = current()
    gpus = [] if machine.device == "cpu" else _gpus(machine.device, environment)
    if machine.device.startswith("cuda") and not gpus:
        raise SetupError(f"SIGHTWORD_DEVICE={machine.device}: no such GPU here", todo="Set SIGHTWORD_DEVICE=cpu.")
    available = cores()
    count = wanted or len(gpus) or min(available // CORES, _memory() // MEMORY)
    count = max(1, min(count, experiments, MOST))
    own = {"SIGHTWORD_STORE": machine.store, "SIGHTWORD_SCRATCH": str(machine.scratch)}
    for variable in ("SIGHTWORD_THREADS", "SIGHTWORD_WORKERS"):
        own[variable] = environment.get(variable) or str(max(1, available // count))
    # `cuda`, not `auto`: an experiment that cannot use its GPU must fail, not run slowly on the CPU
    places = [(f"GPU {gpu}", {"CUDA_VISIBLE_DEVICES": gpu, "SIGHTWORD_DEVICE": "cuda"}) for gpu in gpus]
    turns = itertools.islice(itertools.cycle(places or [("cpu", {})]), count)
    return [Slot(number, place, own | more) for number, (place, more) in enumerate(turns, start=1)]


def _gpus(device: str, environment: Mapping[str, str]) -> list[str]:
    """Return the GPUs that torch sees, with their names in ``CUDA_VISIBLE_DEVICES``."""
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is not None and listed.strip() in ("", "-1"):
        return []
    count = _count()
    names = [name.strip() for name in listed.split(",")][:count] if listed else [str(number) for number in range(count)]
    _, _, number = device.partition(":")
    return names[int(number) : int(number) + 1] if number else names


def _count() -> int:
    """Return the number of GPUs that torch sees; another process asks, so that this one holds no GPU."""
    code = "import torch; print(torch.cuda.device_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    text = done.stdout.strip()
    if done.returncode or not text.isdigit():
        raise SetupError(f"torch cannot list the GPUs: {last_line(done.stderr)}", todo="Set SIGHTWORD_DEVICE=cpu.")
    return int(text)


def _memory() -> int:
    """Return the bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
