"""How many experiments run side by side, and on which GPUs.

The workers of DVC's queue share one environment, so a stage of a sweep takes a free GPU by itself: it holds a lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from filelock import lock_descriptor

from sightword.errors import SetupError
from sightword.machine import Machine, cores, current
from sightword.messages import last_line

CORES, MEMORY = 2, 4 * 2**30
"""Default cores and bytes of memory of an experiment on a CPU."""
MOST = 256
GPUS = "SIGHTWORD_GPUS"
"""The variable with the GPUs of a sweep, one for each experiment at a time, such as ``0,1,0,1``."""
_held: list[IO[str]] = []


@dataclass(frozen=True)
class Slots:
    """The share of this machine that each of ``count`` experiments at a time has."""

    count: int
    place: str
    environment: dict[str, str]
    """Additional environment variables of the workers."""


def choose(wanted: int | None, experiments: int, *, environment: Mapping[str, str] = os.environ) -> Slots:
    """Return the slots of this machine; the environment's settings of threads and workers stay.

    ``wanted`` is by default one for each visible GPU, else for every two cores and 4 GiB of memory, and at most the
    number of all ``experiments``: the number of unfinished ones would change between two runs, and a training run
    resumes only with its first number of threads. SetupError for a wrong setting, or a GPU that does not exist.
    """
    machine = current()
    gpus = [] if machine.device == "cpu" else _gpus(machine.device, environment)
    if machine.device.startswith("cuda") and not gpus:
        raise SetupError(f"SIGHTWORD_DEVICE={machine.device}: no such GPU here", todo="Set SIGHTWORD_DEVICE=cpu.")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    count = max(1, min(wanted or len(gpus) or min(cores() // CORES, memory // MEMORY), experiments, MOST))
    variables = {"SIGHTWORD_STORE": machine.store}
    variables |= {"SIGHTWORD_CACHE": str(machine.cache), "SIGHTWORD_SCRATCH": str(machine.scratch)}
    for variable in ("SIGHTWORD_THREADS", "SIGHTWORD_WORKERS"):
        variables[variable] = environment.get(variable) or str(max(1, cores() // count))
    if gpus:
        variables[GPUS] = ",".join(gpus[number % len(gpus)] for number in range(count))
    return Slots(count, f"GPU {', '.join(gpus[:count])}" if gpus else "the CPU", variables)


def take_gpu(machine: Machine) -> Machine:
    """Wait for a free GPU of a sweep, and keep it as long as this process lives; return the machine's settings.

    Without a sweep, or on a CPU, nothing is taken.
    """
    gpus = [gpu for gpu in os.environ.get(GPUS, "").split(",") if gpu]
    if gpus:
        machine.scratch.mkdir(parents=True, exist_ok=True)
    while gpus:
        for place, gpu in enumerate(gpus):
            lock = (machine.scratch / f"gpu-{gpu}.{gpus[:place].count(gpu)}.lock").open("a")
            if lock_descriptor(lock.fileno(), blocking=False):
                _held.append(lock)
                # `cuda`, not `auto`: an experiment that cannot use its GPU must fail, not run slowly on the CPU
                os.environ |= {"CUDA_VISIBLE_DEVICES": gpu, "SIGHTWORD_DEVICE": "cuda"}
                return current()
            lock.close()
        time.sleep(0.5)
    return machine


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
