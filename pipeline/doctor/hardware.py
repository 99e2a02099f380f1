"""The machine: its settings for Sightword, processors, graphics cards and clock."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.context import Situation
from pipeline.doctor.findings import Note, good, problem, warning
from pipeline.doctor.formats import size
from sightword import machine
from sightword.errors import SetupError

SKEW = 2.0
"""Seconds that the clock of a file server may differ."""
DRIVERS = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""What is there where a driver of NVIDIA's is; the last one under WSL."""

_VARIABLE = re.compile(rb"SIGHTWORD_[A-Z_]*[A-Z]")


def look_at_settings(_: Situation) -> Iterator[Note]:
    """``SIGHTWORD_*``: values that can be used, and names that somebody reads."""
    try:
        here = machine.current()
    except SetupError as error:
        expected = f"; expected {error.expected}" if error.expected else ""
        yield problem(
            f"{error.what}{expected}", error.todo or "Mend or unset the variable: docs/machine.md tells them."
        )
    else:
        yield good(f"device {here.device}, {here.threads} threads, {here.workers} workers")
        yield from _processors(here)
    known = _known_variables()
    for name in sorted(os.environ):
        if name.startswith("SIGHTWORD_") and name not in known and not name.startswith("SIGHTWORD_TEST_"):
            near = difflib.get_close_matches(name, known, n=1)
            guess = f"Did you mean {near[0]}?" if near else "docs/machine.md tells those there are."
            yield warning(f"{name} is set, but nothing reads it", guess)


def _known_variables() -> set[str]:
    """The variables that this code reads, found in it: a list by hand would grow old."""
    package = Path(__file__).resolve().parents[1]
    found = {name.decode() for path in package.rglob("*.py") for name in _VARIABLE.findall(path.read_bytes())}
    return {name for name in found if not name.startswith("SIGHTWORD_TEST_")}


def _processors(here: machine.Machine) -> Iterator[Note]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if here.threads > cores:
        yield warning(
            f"{here.threads} threads share {cores} cores", f"Set SIGHTWORD_THREADS to {cores} at most: more are slower."
        )
    if here.workers > 2 * cores:
        yield warning(f"{here.workers} workers share {cores} cores", f"Set SIGHTWORD_WORKERS to {cores}, or unset it.")
    busy = os.getloadavg()[0] > 1.5 * cores
    if os.environ.get("OMP_WAIT_POLICY", "").upper() == "ACTIVE":
        yield warning(
            "OMP_WAIT_POLICY=ACTIVE: waiting threads spin, which is many times slower on a busy machine",
            "Unset it, unless nobody else works here.",
        )
    elif busy and here.threads > 1:
        yield warning(
            f"the machine is busy ({os.getloadavg()[0]:.1f} processes for {cores} cores)",
            "A run with SIGHTWORD_THREADS=1 is often faster then; a training's last digits depend on the number.",
        )


def look_at_devices(situation: Situation) -> Iterator[Note]:
    """CUDA, its driver, and the device that was asked for."""
    facts = situation.facts("torch")
    if "torch" not in facts:
        return  # said where torch is looked at
    asked = os.environ.get("SIGHTWORD_DEVICE") or "auto"
    devices, driver = facts["devices"], any(path.exists() for path in DRIVERS)
    for number, device in enumerate(devices):
        known = facts.get("kinds") or [device["kind"]]
        said = f"cuda:{number} is {device['name']}, {size(device['free'])} of {size(device['total'])} free"
        if _runs_on(device["kind"], known):
            yield good(said)
        else:
            yield problem(f"{said}, but this torch was built for {', '.join(known)}", "Install a torch built for it.")
    if asked.startswith("cuda") and int(asked.partition(":")[2] or 0) >= len(devices):
        why = "no driver of NVIDIA's is loaded" if not driver else "see the next line"
        yield problem(
            f"SIGHTWORD_DEVICE={asked}, but there are {len(devices)} CUDA devices ({why})",
            "Set SIGHTWORD_DEVICE=cpu or unset it.",
        )
    if devices:
        return
    if driver and facts["cuda_build"] is None:
        yield warning(
            "there is a driver of NVIDIA's, but this torch is built for processors only",
            "Install a torch built for CUDA, with the torchvision that fits, to use the card.",
        )
    elif driver:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = (
            f"CUDA_VISIBLE_DEVICES={hidden!r}"
            if hidden is not None
            else f"torch is built for CUDA {facts['cuda_build']}"
        )
        yield warning(
            f"there is a driver of NVIDIA's, but torch sees no card ({why})",
            "`nvidia-smi` tells whether the driver works and which CUDA it knows; it must be that new or newer.",
        )
    else:
        yield good("no CUDA device: all work is done on the processor")


def _runs_on(kind: str, built: list[str]) -> bool:
    """Whether a card runs what was built for some kinds: upwards within a generation, and later on from PTX."""
    number = int(re.sub(r"\D", "", kind))
    for one in built:
        other = int(re.sub(r"\D", "", one) or 0)
        if other <= number and (one.startswith("compute") or other // 10 == number // 10):
            return True
    return False


def look_at_clock(situation: Situation) -> Iterator[Note]:
    """Whether files get the time of this machine: DVC and make tell by it what has changed."""
    folder = situation.project or situation.folder
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(b"x")
            file.flush()
            skew = os.fstat(file.fileno()).st_mtime - time.time()
    except OSError:
        return  # a folder that cannot be written is told where folders are looked at
    if time.localtime().tm_year < 2024:
        yield problem("the clock is years behind", "Set it: certificates are refused, and files seem changed.")
    elif abs(skew) > SKEW:
        yield warning(
            f"new files in {folder} are {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine's clock",
            "Synchronise the clocks of this machine and the file server.",
        )
    else:
        yield good("the clock and the files' times agree")
