"""Check the machine: its settings for Sightword, cores and graphics cards."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Finding, failure, good, problem, warning
from sightword import machine
from sightword.errors import SetupError
from sightword.messages import did_you_mean, size

DRIVERS = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Files of NVIDIA's driver; the last one under WSL."""


def check_settings(_: Context) -> Iterator[Finding]:
    """Check the values and names of ``SIGHTWORD_*``."""
    try:
        here = machine.current()
    except SetupError as error:
        yield failure(error, "Fix or unset the variable: docs/machine.md describes it.")
    else:
        yield good(f"device {here.device}, {here.threads} threads, {here.workers} workers")
        yield from _check_cores(here)
    known = known_variables()
    for name in sorted(os.environ):
        if re.match("SIGHTWORD_(?!TEST_)", name) and name not in known:
            todo = did_you_mean(name, known, count=1) or "docs/machine.md lists the variables."
            yield warning(f"{name} is set, but nothing reads it", todo)


def known_variables() -> set[str]:
    """Return the variables that the code reads, by a search through it."""
    root = Path(__file__).resolve().parents[2]
    files = [path for package in ("sightword", "pipeline", "stages") for path in (root / package).rglob("*.py")]
    return {name for path in files for name in re.findall("SIGHTWORD_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8"))}


def _check_cores(here: machine.Machine) -> Iterator[Finding]:
    cores = machine.cores()
    counts = (("threads", here.threads, cores), ("workers", here.workers, 2 * cores))
    for variable, count, most in counts:
        if count > most:
            todo = f"Set SIGHTWORD_{variable.upper()} to {cores}, or unset it: more are slower."
            yield warning(f"{count} {variable} share {cores} cores", todo)


def check_devices(context: Context) -> Iterator[Finding]:
    """Check CUDA, its driver, and the requested device."""
    facts = context.ask("torch")
    if "torch" not in facts:
        return  # the check of torch reports the error
    requested = os.environ.get("SIGHTWORD_DEVICE") or "auto"
    devices, driver = facts["devices"], any(path.exists() for path in DRIVERS)
    for number, device in enumerate(devices):
        yield good(f"cuda:{number} is {device['name']}, {size(device['free'])} of {size(device['total'])} free")
    if requested.startswith("cuda") and int(requested.partition(":")[2] or 0) >= len(devices):
        why = "see the next line" if driver else "no NVIDIA driver is loaded"
        what = f"SIGHTWORD_DEVICE={requested}, but there are {len(devices)} CUDA devices ({why})"
        yield problem(what, "Set SIGHTWORD_DEVICE=cpu or unset it.")
    if driver and not devices:
        build, visible = facts["cuda_build"], os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        why = f"torch is built for CUDA {build}" if build else "this torch is built for the CPU only"
        yield warning(
            f"there is an NVIDIA driver, but torch sees no card ({why}; CUDA_VISIBLE_DEVICES is {visible!r})",
            "`nvidia-smi` shows whether the driver works, and its newest CUDA: install a torch for this CUDA or older.",
        )
    elif not devices:
        yield good("no CUDA device: all work is done on the CPU")
