"""Check Python and its packages: versions, pins, and whether torch loads."""

from __future__ import annotations

import importlib.metadata as metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Note, good, problem, warning
from sightword.text import and_more

OLDEST = (3, 11, 4)

_INSTALL = "Run `make install`, or install the package again with pip."


def check_python(context: Context) -> Iterator[Note]:
    """Check the interpreter, and that the stages run with the same one."""
    found = f"Python {sys.version.split()[0]} in {sys.prefix}"
    if sys.version_info < OLDEST or sys.maxsize < 2**32:
        yield problem(
            f"{found} is too old or has 32 bits only",
            "Sightword needs 64 bits and Python {}.{}.{} or newer: `make PYTHON=python3.12 install`.".format(*OLDEST),
        )
    else:
        yield good(found)
    yield from _check_path("python", "stages run with `python`", problem)
    yield from _check_path("dvc", "`dvc` should be the one of this environment", warning)
    package = Path(__file__).resolve().parents[1]
    project = context.project
    if project and (project / "pipeline").is_dir() and package != (project / "pipeline").resolve():
        yield warning(
            f"this command runs the code of {package.parent}, the stages run that of {project}",
            "Install this project into an environment of its own: `make install`.",
        )


def _check_path(program: str, use: str, report: Callable[[str, str], Note]) -> Iterator[Note]:
    """Check that a program on PATH is the one of this environment: DVC does not put its own on PATH."""
    own = os.path.realpath(sysconfig.get_path("scripts"))
    todo = f"Put it first: `. {sys.prefix}/bin/activate`, or use `make repro`, which does."
    found = shutil.which(program)
    if found is None:
        yield report(f"{use}, but there is no `{program}` on PATH", todo)
    elif os.path.realpath(Path(found).parent) != own and _prefix(found) != os.path.realpath(sys.prefix):
        yield report(f"{use}, but that is {found}, of another environment", todo)


def _prefix(program: str) -> str:
    """Return the environment of a Python, also of one behind a wrapper; empty where that is not known."""
    if not Path(program).name.startswith("python"):
        return ""
    try:
        command = [program, "-c", "import os, sys; print(os.path.realpath(sys.prefix))"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()  # noqa: S603 - the user's own
    except (OSError, subprocess.TimeoutExpired):
        return ""


def check_packages(context: Context) -> Iterator[Note]:
    """Check the packages that Sightword needs, and in a checkout the versions of ``constraints.txt``."""
    installed = _installed()
    required = _required(context.project)
    wrong = []
    for requirement in required:
        version = installed.get(canonicalize_name(requirement.name))
        if version is None:
            wrong.append(f"{requirement} (not installed)")
        elif not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement} (installed: {version})")
    if wrong:
        yield problem(f"Sightword needs {and_more(wrong, 5)}", _INSTALL)
    else:
        yield good(f"{len(required)} packages are in the ranges that Sightword needs")
    pins = _pins(context.project)
    other = [
        f"{name} {installed[name]} instead of {pin}"
        for name, pin in pins.items()
        if name in installed and not _same(installed[name], pin)
    ]
    if other:
        yield warning(
            f"{and_more(other, 5)}: results may differ in their last digits from those of constraints.txt",
            "Run `make install` for the versions that the tests ran with.",
        )
    elif pins:
        yield good("versions are those of constraints.txt")


def check_torch(context: Context) -> Iterator[Note]:
    """Check that torch loads, with a torchvision that was built for it."""
    yield from _check_pair()
    facts = context.ask("torch")
    if not facts:
        return
    if facts.get("late"):
        what = "torchvision" if "torch" in facts else "torch"
        yield warning(f"{what} takes a minute or more to load", "Check whether the disk or network folder is slow.")
    elif "torch" not in facts:
        yield problem(f"torch cannot be loaded ({facts.get('failed', 'no message')})", _INSTALL)
    elif "torchvision_error" in facts or "failed" in facts:
        error = facts.get("torchvision_error") or facts["failed"]
        yield problem(f"torchvision cannot be used beside torch {facts['torch']} ({error})", _INSTALL)
    elif facts.get("patched"):
        yield good(
            f"torchvision {facts['torchvision']} loads beside torch {facts['torch']} without its C++ operators, "
            "which Sightword does not use"
        )
    elif "torchvision" in facts:
        yield good(f"torchvision {facts['torchvision']} loads beside torch {facts['torch']}")
    else:
        yield good(f"torch {facts['torch']} loads")


def _check_pair() -> Iterator[Note]:
    """Check the torch that torchvision was built for, by torchvision's own metadata."""
    try:
        built = [Requirement(text) for text in metadata.requires("torchvision") or []]
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return  # the check of packages reports a missing one
    for requirement in built:
        if requirement.name == "torch" and not requirement.specifier.contains(torch, prereleases=True):
            yield problem(
                f"torchvision {metadata.version('torchvision')} needs torch {requirement.specifier}, not {torch}",
                "Install a pair that fits, such as the one in constraints.txt: `make install`.",
            )


def _installed() -> dict[str, str]:
    """Return versions by normalised name; of a package that is there twice, the one that is imported."""
    found: dict[str, str] = {}
    for one in metadata.distributions():
        name: Any = one.metadata["Name"]  # None where an installation was cut off
        if name:
            found.setdefault(canonicalize_name(name), one.version)
    return found


def _required(project: Path | None) -> list[Requirement]:
    """Return what the pipeline requires: by the checkout's pyproject.toml, else by the installed package."""
    texts: list[str] = []
    if project is not None and (project / "pyproject.toml").is_file():
        try:
            table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
            if table.get("name") == "sightword":
                extras = table.get("optional-dependencies", {})
                texts = [*table.get("dependencies", []), *extras.get("pipeline", [])]
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            texts = []
    if not texts:
        try:
            texts = metadata.requires("sightword") or []
        except metadata.PackageNotFoundError:
            texts = []
    found = map(Requirement, texts)
    return [one for one in found if one.marker is None or one.marker.evaluate({"extra": "pipeline"})]


def _pins(project: Path | None) -> dict[str, str]:
    """Return the versions in constraints.txt by normalised name."""
    path = project / "constraints.txt" if project else None
    if path is None or not path.is_file():
        return {}
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            requirement = Requirement(re.sub(r"\s*#.*", "", line))
        except InvalidRequirement:
            continue  # comments and empty lines
        exact = [one.version for one in requirement.specifier if one.operator == "=="]
        if exact and (requirement.marker is None or requirement.marker.evaluate()):
            found[canonicalize_name(requirement.name)] = exact[0]
    return found


def _same(installed: str, pin: str) -> bool:
    """Return whether a version is the pinned one; the part after a plus sign only names the build."""
    try:
        return Version(installed).public == Version(pin).public
    except InvalidVersion:
        return installed == pin
