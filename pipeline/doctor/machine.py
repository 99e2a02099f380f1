"""Check the machine: Python, packages, torch, graphics cards, settings, the store, and room on disks."""

from __future__ import annotations

import contextlib
import importlib.metadata as metadata
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.findings import Context, Finding, failure, good, problem, warning
from pipeline.lineage import code_lists
from sightword import machine
from sightword.errors import SetupError, StoreError
from sightword.messages import and_more, did_you_mean, last_line, size

OLDEST = (3, 11, 4)
DRIVERS = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Files of NVIDIA's driver; the last one under WSL."""
LITTLE, USUAL = 100e6, 5e9
"""Free bytes below which a disk counts as full, and below which a run on some thousand pictures may fill it."""
_INSTALL = "Run `make install`, or install the package again with pip."
_ROOM = {
    "the project": "Make room there, or work in a clone elsewhere.",
    "DVC's cache": "Make room as docs/lab.md says (other clones may use the cache), or move it: `dvc cache dir`.",
    "the store": "Make room there, or use another folder: SIGHTWORD_STORE.",
    "copies of the store": "Make room there, or use another folder: SIGHTWORD_CACHE.",
    "the scratch folder": "Make room there, or use another folder: SIGHTWORD_SCRATCH.",
}


def check_python(context: Context) -> Iterator[Finding]:
    """Check the interpreter, and that the stages run with the same Python and code."""
    version = f"Python {sys.version.split()[0]} in {sys.prefix}"
    if sys.version_info < OLDEST or sys.maxsize < 2**32:
        needed = f"64 bits and Python {'.'.join(map(str, OLDEST))} or newer"
        todo = f"Sightword needs {needed}: `rm -rf .venv`, and `make PYTHON=python3.12 install`."
        yield problem(f"{version} is too old or has 32 bits only", todo)
    else:
        yield good(version)
    todo = f"Put it first: `. {sys.prefix}/bin/activate`, or use `make repro`, which does."
    if (program := shutil.which("python")) is None:
        yield problem("stages run with `python`, but there is no `python` on PATH", todo)
    elif _prefix(program) != os.path.realpath(sys.prefix):
        yield problem(f"stages run with `python`, but that is {program}, of another environment", todo)
    package = Path(__file__).resolve().parents[1]
    code = context.project / "pipeline" if context.project else package
    if code.is_dir() and code.resolve() != package:
        what = f"the stages run the code of {context.project}, this command that of {package.parent}"
        yield warning(what, "`make install` installs the code of a clone.")
    if context.project:
        yield from check_lists(context.project)


def check_lists(project: Path) -> Iterator[Finding]:
    """Check that the installed program is the one of the project's lists of code."""
    if names := sorted({name for names in code_lists.outdated(project).values() for name in names}):
        what = f"the installed sightword has other code than the lists in code/: {and_more(names, 5)}"
        yield problem(what, f"{code_lists.RENEW}.")


def _prefix(program: str) -> str:
    """Return the environment of a Python, which may be a wrapper."""
    command = [program, "-c", "import os, sys; print(os.path.realpath(sys.prefix))"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the user's
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def check_packages(context: Context) -> Iterator[Finding]:
    """Check what packages need of each other, and in a checkout the versions of ``constraints.txt``."""
    from packaging.requirements import Requirement  # each stage imports this module, and uses no such packages

    command = [sys.executable, "-P", "-m", "pip", "check", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    wrong = done.stdout.strip().splitlines()
    if done.returncode and wrong:
        yield problem(and_more(wrong, 5, between="; "), _INSTALL)
    elif done.returncode:  # such as an environment without pip
        yield warning(f"`pip check` does not run: {last_line(done.stderr)}", "`python -m ensurepip`")
    else:
        yield good("packages fit each other (pip check)")
    path = context.project / "constraints.txt" if context.project else None
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.is_file() else []
    pins = [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]
    installed = {distribution.name.lower(): distribution.version for distribution in metadata.distributions()}
    other = [
        f"{pin.name} {version} instead of {pin.specifier}"
        for pin in pins
        if (version := installed.get(pin.name.lower())) and not pin.specifier.contains(version, prereleases=True)
        if pin.marker is None or pin.marker.evaluate()
    ]
    if other:
        what = f"{and_more(other, 5)}: results may differ in their last digits from those of constraints.txt"
        yield warning(what, "Run `make install` for the versions that the tests ran with.")
    elif pins:
        yield good("versions are those of constraints.txt")


def check_torch(context: Context) -> Iterator[Finding]:
    """Check that torch and torchvision load."""
    facts = context.ask("torch")
    error = facts.get("torchvision_error") or facts.get("failed", "")
    if facts.get("late"):
        yield warning("torch takes a minute or more to load", "Check whether the disk or network folder is slow.")
    elif facts and "torch" not in facts:
        yield problem(f"torch cannot be loaded ({error})", _INSTALL)
    elif error:
        yield problem(f"torchvision cannot be used beside torch {facts['torch']} ({error})", _INSTALL)
    elif facts:
        yield good(
            " and ".join(f"{name} {facts[name]}" for name in ("torch", "torchvision") if name in facts) + " load"
        )


def check_devices(context: Context) -> Iterator[Finding]:
    """Check CUDA, its driver, and the requested device."""
    facts = context.ask("torch")
    if "torch" not in facts:
        return  # the check of torch reports the error
    requested = os.environ.get("SIGHTWORD_DEVICE") or "auto"
    devices, driver = facts["devices"], any(path.exists() for path in DRIVERS)
    for number, device in enumerate(devices):
        yield good(f"cuda:{number} is {device['name']}, {size(device['free'])} of {size(device['total'])} free")
    if re.fullmatch(r"cuda(:\d+)?", requested) and int(requested.partition(":")[2] or 0) >= len(devices):
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


def check_settings(_: Context) -> Iterator[Finding]:
    """Check the values and names of ``SIGHTWORD_*``."""
    try:
        here = machine.current()
    except SetupError as error:
        yield failure(error, "Fix or unset the variable: docs/machine.md describes it.")
    else:
        yield good(f"device {here.device}, {here.threads} threads, {here.workers} workers")
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


def check_store(_context: Context) -> Iterator[Finding]:
    """Check that a store in object storage can be reached, read and written."""
    try:
        store = machine.current().store
    except SetupError:
        return  # the check of settings reports the error
    if not machine.is_address(store):
        yield good(f"the store is the folder {store}")
        return
    from sightword.places.requests import Requests

    try:
        objects, name = Requests(store), f"probe-{secrets.token_hex(6)}"
        objects.folders("features")
        objects.put_and_compare(name, secrets.token_bytes(64))
        objects.remove(name)
    except (SetupError, StoreError) as error:
        yield failure(error, "Correct SIGHTWORD_STORE.")
    else:
        yield good(f"the store {store} answers, and can be written")


def check_disk(context: Context) -> Iterator[Finding]:
    """Check free space and the right to write, disk by disk."""
    folders: dict[str, Path] = {}
    if context.project is not None:
        cache = context.ask("dvc").get("cache") or context.project / ".dvc/cache/files/md5"
        folders = {"the project": context.project, "DVC's cache": Path(cache)}
    with contextlib.suppress(SetupError):  # the check of settings reports the error
        here = machine.current()
        bucket = machine.is_address(here.store)
        folders |= {"copies of the store": here.cache} if bucket else {"the store": here.local_store}
        folders["the scratch folder"] = here.scratch
    disks: dict[int, dict[str, Path]] = {}
    for name, folder in folders.items():
        there = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK))
        try:  # permission bits do not show a disk that is mounted read-only
            with tempfile.TemporaryFile(dir=there) as file:
                file.write(b"x")
        except OSError as error:
            yield problem(f"{name} cannot be written to: {there}: {error.strerror or error}", _ROOM[name])
        else:
            disks.setdefault(there.stat().st_dev, {})[name] = there
    for places in disks.values():
        folder = next(iter(places.values()))
        free = shutil.disk_usage(folder).free
        what, report = f"{', '.join(places)} ({folder}): {size(free)} free", problem if free < LITTLE else warning
        yield report(what, _ROOM[list(places)[-1]]) if free < USUAL else good(what)
