"""Check the machine: its settings for Sightword, cores and graphics cards."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Note, good, message, problem, warning
from sightword import machine
from sightword.errors import SetupError
from sightword.text import did_you_mean, size

DRIVERS = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Files of NVIDIA's driver; the last one under WSL."""

_VARIABLE = re.compile(rb"SIGHTWORD_[A-Z_]*[A-Z]")


def check_settings(_: Context) -> Iterator[Note]:
    """Check the values and names of ``SIGHTWORD_*``."""
    try:
        here = machine.current()
    except SetupError as error:
        yield problem(message(error), error.todo or "Fix or unset the variable: docs/machine.md describes it.")
    else:
        yield good(f"device {here.device}, {here.threads} threads, {here.workers} workers")
        yield from _check_cores(here)
    known = known_variables()
    for name in sorted(os.environ):
        if name.startswith("SIGHTWORD_") and name not in known and not name.startswith("SIGHTWORD_TEST_"):
            todo = did_you_mean(name, known, count=1) or "docs/machine.md lists the variables."
            yield warning(f"{name} is set, but nothing reads it", todo)


def known_variables() -> set[str]:
    """Return the variables that the code reads, by a search through it."""
    root = Path(__file__).resolve().parents[2]
    files = [path for package in ("sightword", "pipeline", "stages") for path in (root / package).rglob("*.py")]
    found = {name.decode() for path in files for name in _VARIABLE.findall(path.read_bytes())}
    return {name for name in found if not name.startswith("SIGHTWORD_TEST_")}


def _check_cores(here: machine.Machine) -> Iterator[Note]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if here.threads > cores:
        yield warning(
            f"{here.threads} threads share {cores} cores", f"Set SIGHTWORD_THREADS to {cores} at most: more are slower."
        )
    if here.workers > 2 * cores:
        yield warning(f"{here.workers} workers share {cores} cores", f"Set SIGHTWORD_WORKERS to {cores}, or unset it.")
    if os.environ.get("OMP_WAIT_POLICY", "").upper() == "ACTIVE":
        yield warning(
            "OMP_WAIT_POLICY=ACTIVE: waiting threads spin, which is many times slower on a busy machine",
            "Unset it, unless nobody else works here.",
        )
    elif os.getloadavg()[0] > 1.5 * cores and here.threads > 1:
        yield warning(
            f"the machine is busy ({os.getloadavg()[0]:.1f} processes for {cores} cores)",
            "SIGHTWORD_THREADS=1 is often faster then; the last digits of a training run depend on the number.",
        )


def check_devices(context: Context) -> Iterator[Note]:
    """Check CUDA, its driver, and the requested device."""
    facts = context.ask("torch")
    if "torch" not in facts:
        return  # the check of torch reports the error
    requested = os.environ.get("SIGHTWORD_DEVICE") or "auto"
    devices, driver = facts["devices"], any(path.exists() for path in DRIVERS)
    for number, device in enumerate(devices):
        built = facts.get("kinds") or [device["kind"]]
        found = f"cuda:{number} is {device['name']}, {size(device['free'])} of {size(device['total'])} free"
        if runs_on(device["kind"], built):
            yield good(found)
        else:
            yield problem(f"{found}, but this torch was built for {', '.join(built)}", "Install a torch built for it.")
    if requested.startswith("cuda") and int(requested.partition(":")[2] or 0) >= len(devices):
        why = "see the next line" if driver else "no NVIDIA driver is loaded"
        yield problem(
            f"SIGHTWORD_DEVICE={requested}, but there are {len(devices)} CUDA devices ({why})",
            "Set SIGHTWORD_DEVICE=cpu or unset it.",
        )
    if not devices:
        yield _check_driver(facts["cuda_build"]) if driver else good("no CUDA device: all work is done on the CPU")


def _check_driver(cuda_build: str | None) -> Note:
    if cuda_build is None:
        return warning(
            "there is an NVIDIA driver, but this torch is built for the CPU only",
            "Install a torch built for CUDA, with the torchvision that fits, to use the card.",
        )
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    why = f"torch is built for CUDA {cuda_build}" if hidden is None else f"CUDA_VISIBLE_DEVICES={hidden!r}"
    return warning(
        f"there is an NVIDIA driver, but torch sees no card ({why})",
        "`nvidia-smi` shows whether the driver works, and its newest CUDA, which must be that of torch or newer.",
    )


def runs_on(kind: str, built: list[str]) -> bool:
    """Return whether a card runs code built for some kinds.

    A card runs code of its own generation up to its own kind, and PTX (``compute_80``) of all earlier kinds.
    """
    number = int(re.sub(r"\D", "", kind))
    for one in built:
        other = int(re.sub(r"\D", "", one) or 0)
        if other <= number and (one.startswith("compute") or other // 10 == number // 10):
            return True
    return False
