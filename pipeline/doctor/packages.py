"""Check Python and its packages: versions, pins, and whether torch loads."""

from __future__ import annotations

import importlib.metadata as metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Finding, good, problem, warning
from pipeline.lineage import code_lists
from sightword.messages import and_more

OLDEST = (3, 11, 4)

_INSTALL = "Run `make install`, or install the package again with pip."


def check_python(context: Context) -> Iterator[Finding]:
    """Check the interpreter, and that the stages run with the same one."""
    found = f"Python {sys.version.split()[0]} in {sys.prefix}"
    if sys.version_info < OLDEST or sys.maxsize < 2**32:
        needed = f"64 bits and Python {'.'.join(map(str, OLDEST))} or newer"
        todo = f"Sightword needs {needed}: `make PYTHON=python3.12 install`."
        yield problem(f"{found} is too old or has 32 bits only", todo)
    else:
        yield good(found)
    yield from _check_path("python", "stages run with `python`", problem)
    yield from _check_path("dvc", "`dvc` should be the one of this environment", warning)
    package = Path(__file__).resolve().parents[1]
    own = context.project / "pipeline" if context.project else package
    if own.is_dir() and own.resolve() != package:
        what = f"the stages run the code of {context.project}, this command that of {package.parent}"
        yield warning(what, "`make install` installs the code of a clone.")
    if context.project:
        yield from check_lists(context.project)


def check_lists(project: Path) -> Iterator[Finding]:
    """Check that the installed program is the one of the project's lists of code."""
    if names := sorted({name for names in code_lists.outdated(project).values() for name in names}):
        what = f"the installed sightword has other code than the lists in code/: {and_more(names, 5)}"
        yield problem(what, f"{code_lists.RENEW}.")


def _check_path(program: str, use: str, report: Callable[[str, str], Finding]) -> Iterator[Finding]:
    """Check that a program on PATH belongs to this environment: DVC does not put its own environment on PATH."""
    own = os.path.realpath(sysconfig.get_path("scripts"))
    todo = f"Put it first: `. {sys.prefix}/bin/activate`, or use `make repro`, which does."
    found = shutil.which(program)
    if found is None:
        yield report(f"{use}, but there is no `{program}` on PATH", todo)
    elif os.path.realpath(Path(found).parent) != own and not (program == "python" and _is_this_python(found)):
        yield report(f"{use}, but that is {found}, of another environment", todo)


def _is_this_python(program: str) -> bool:
    """Return whether a Python, which may be a wrapper, is of this environment."""
    try:
        command = [program, "-c", "import os, sys; print(os.path.realpath(sys.prefix))"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603 - the user's own
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == os.path.realpath(sys.prefix)


def check_packages(context: Context) -> Iterator[Finding]:
    """Check what packages need of each other, and in a checkout the versions of ``constraints.txt``."""
    command = [sys.executable, "-P", "-m", "pip", "check", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    wrong = done.stdout.strip().splitlines()
    if done.returncode and wrong:
        yield problem(and_more(wrong, 5, between="; "), _INSTALL)
    elif not done.returncode:
        yield good("packages fit each other (pip check)")
    path = context.project / "constraints.txt" if context.project else None
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.is_file() else []
    pins = [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]
    other = [
        f"{pin.name} {version} instead of {pin.specifier}"
        for pin in pins
        if (version := _version(pin.name)) and not pin.specifier.contains(version, prereleases=True)
        if pin.marker is None or pin.marker.evaluate()
    ]
    if other:
        what = f"{and_more(other, 5)}: results may differ in their last digits from those of constraints.txt"
        yield warning(what, "Run `make install` for the versions that the tests ran with.")
    elif pins:
        yield good("versions are those of constraints.txt")


def _version(package: str) -> str | None:
    """Return the installed version of a package; None for a missing one, and one whose installation was cut off."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_torch(context: Context) -> Iterator[Finding]:
    """Check that torch and torchvision load."""
    facts = context.ask("torch")
    error = facts.get("torchvision_error") or facts.get("failed", "no message")
    if facts.get("late"):
        what = "torchvision" if "torch" in facts else "torch"
        yield warning(f"{what} takes a minute or more to load", "Check whether the disk or network folder is slow.")
    elif facts and "torch" not in facts:
        yield problem(f"torch cannot be loaded ({error})", _INSTALL)
    elif "torchvision_error" in facts or "failed" in facts:
        yield problem(f"torchvision cannot be used beside torch {facts['torch']} ({error})", _INSTALL)
    elif "torchvision" in facts:
        lacks = " without its C++ operators, which Sightword does not use" if facts["patched"] else ""
        yield good(f"torchvision {facts['torchvision']} loads beside torch {facts['torch']}{lacks}")
    elif facts:
        yield good(f"torch {facts['torch']} loads")
