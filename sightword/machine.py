"""Settings of the machine, from environment variables: they change speed and at most the last bits of results.

The settings are not hashed parameters, so machines with different settings share their results.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from sightword.errors import SetupError


@dataclass(frozen=True)
class Machine:
    """The device, process and thread counts, and folders of this machine."""

    device: str
    """``SIGHTWORD_DEVICE``: ``auto`` (CUDA where there is one), ``cpu``, ``cuda`` or ``cuda:N``."""
    workers: int
    """``SIGHTWORD_WORKERS``: processes that read pictures; default: the cores available to this process."""
    threads: int
    """``SIGHTWORD_THREADS``: threads of one tensor operation; in extraction, pictures computed in parallel; default:
    the cores available to this process."""
    store: Path
    """``SIGHTWORD_STORE``: the folder of the feature store; default: in the user's cache."""
    scratch: Path
    """``SIGHTWORD_SCRATCH``: the folder of unfinished training runs; default: in the user's cache."""
    engine: str = "local"
    """``SIGHTWORD_ENGINE``: where pictures are resized and features computed: ``local`` (this machine) or ``ray``."""
    ray_cpus: int = 1
    """``SIGHTWORD_RAY_CPUS``: the CPUs, and the threads, of a Ray worker that computes features."""
    ray_gpus: float = 0.0
    """``SIGHTWORD_RAY_GPUS``: the GPUs of such a worker, such as 1 or 0.25; 0 computes on CPUs."""


def current() -> Machine:
    """Read the machine's settings from the environment.

    Raises:
        SetupError: a variable has an invalid value.
    """
    device = os.environ.get("SIGHTWORD_DEVICE") or "auto"
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise SetupError(f"SIGHTWORD_DEVICE={device}: no such device", expected="auto, cpu, cuda or cuda:N")
    engine = os.environ.get("SIGHTWORD_ENGINE") or "local"
    if engine not in ("local", "ray"):
        raise SetupError(f"SIGHTWORD_ENGINE={engine}: no such engine", expected="local or ray")
    return Machine(
        device=device,
        workers=_count("SIGHTWORD_WORKERS", cores(), least=0),
        threads=_count("SIGHTWORD_THREADS", cores(), least=1),
        store=_folder("SIGHTWORD_STORE"),
        scratch=_folder("SIGHTWORD_SCRATCH", "scratch"),
        engine=engine,
        ray_cpus=_count("SIGHTWORD_RAY_CPUS", 1, least=1),
        ray_gpus=_share("SIGHTWORD_RAY_GPUS"),
    )


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count(variable: str, default: int, *, least: int) -> int:
    text = os.environ.get(variable)
    if not text:
        return default
    if not text.isdigit() or int(text) < least:
        raise SetupError(f"{variable}={text}: not a usable number", expected=f"a whole number of at least {least}")
    return int(text)


def _share(variable: str) -> float:
    """Return a fraction of a GPU or a whole number of GPUs, as Ray takes them; 0 if the variable is not set."""
    text = os.environ.get(variable) or "0"
    number = float(text) if re.fullmatch(r"\d+(\.\d*)?|\.\d+", text) else -1.0
    if number < 0 or (number > 1 and number != int(number)):
        raise SetupError(f"{variable}={text}: not a usable number", expected="a fraction such as 0.25, or 0, 1, 2, ..")
    return number


def _folder(variable: str, below: str = "") -> Path:
    named = os.environ.get(variable)
    caches = os.environ.get("XDG_CACHE_HOME")
    try:
        if named:
            return Path(named).expanduser().absolute()
        return Path(caches or Path.home() / ".cache") / "sightword" / below
    except RuntimeError:
        what = f"{variable}={named}: there is no such user" if named else "this user has no home folder"
        raise SetupError(what, todo=f"Set {variable} to a folder.") from None
