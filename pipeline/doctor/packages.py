"""Python and its packages: new enough, the pinned ones, and fitting together."""

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

from pipeline.doctor.context import Situation
from pipeline.doctor.findings import Note, good, problem, warning
from pipeline.doctor.formats import some

OLDEST = (3, 11)

_INSTALL = "Run `make install`, or install the package again with pip."


def look_at_python(situation: Situation) -> Iterator[Note]:
    """The interpreter, and whether the stages are run by the same one."""
    said = f"Python {sys.version.split()[0]} in {sys.prefix}"
    if sys.version_info < OLDEST or sys.maxsize < 2**32:
        yield problem(
            f"{said} is too old or has 32 bits only",
            "Sightword needs 64 bits and Python {}.{} or newer: `make PYTHON=python3.12 install`.".format(*OLDEST),
        )
    else:
        yield good(said)
    yield from _on_path("python", "stages are run with `python`", problem)
    yield from _on_path("dvc", "`dvc` is to be that of this environment", warning)
    package = Path(__file__).resolve().parents[1]
    project = situation.project
    if project and (project / "pipeline").is_dir() and package != (project / "pipeline").resolve():
        yield warning(
            f"this command's code is that of {package.parent}, the stages' that of {project}",
            "Install this project into an environment of its own: `make install`.",
        )


def _on_path(program: str, use: str, say: Callable[[str, str], Note]) -> Iterator[Note]:
    """Whether a program is the one of this environment: DVC does not put its own on PATH."""
    own = os.path.realpath(sysconfig.get_path("scripts"))
    todo = f"Put it first: `. {sys.prefix}/bin/activate`, or use `make repro`, which does."
    found = shutil.which(program)
    if found is None:
        yield say(f"{use}, but there is no `{program}` on PATH", todo)
    elif os.path.realpath(Path(found).parent) != own and _prefix(found) != os.path.realpath(sys.prefix):
        yield say(f"{use}, but that is {found}, of another environment", todo)


def _prefix(program: str) -> str:
    """The environment of a Python, also of one behind a wrapper; empty where it says none."""
    if not Path(program).name.startswith("python"):
        return ""
    try:
        command = [program, "-c", "import os, sys; print(os.path.realpath(sys.prefix))"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()  # noqa: S603 - the user's own
    except (OSError, subprocess.TimeoutExpired):
        return ""


def look_at_packages(situation: Situation) -> Iterator[Note]:
    """What Sightword asks for, and in a checkout the versions its tests ran with."""
    installed = _installed()
    asked = _asked(situation.project)
    wrong = []
    for requirement in asked:
        version = installed.get(canonicalize_name(requirement.name))
        if version is None:
            wrong.append(f"{requirement} (not installed)")
        elif not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement} (installed: {version})")
    if wrong:
        yield problem(f"{some(wrong)}: not what Sightword needs", _INSTALL)
    else:
        yield good(f"{len(asked)} packages are in the ranges that Sightword needs")
    pins = _pins(situation.project)
    if not pins:
        return
    # A pin of what is not installed, such as a tool of the developers, is no concern of a run.
    other = [
        f"{name} {installed[name]} instead of {pin}"
        for name, pin in pins.items()
        if name in installed and not _same(installed[name], pin)
    ]
    if other:
        yield warning(
            f"{some(other)}: results may differ in their last digits from those of constraints.txt",
            "Run `make install` to have the versions that the tests ran with.",
        )
    else:
        yield good("versions are those of constraints.txt")


def look_at_torch(situation: Situation) -> Iterator[Note]:
    """Whether torch loads, and torchvision beside it."""
    yield from _declared()
    facts = situation.facts("torch")
    if not facts:
        return
    if "torch" not in facts and facts.get("late"):
        yield warning("torch takes a minute or more to load", "Look whether the disk or the network folder is slow.")
    elif "torch" not in facts:
        yield problem(f"torch cannot be loaded ({facts.get('failed', 'it said nothing')})", _INSTALL)
    elif "torchvision_error" in facts and "torchvision" not in facts:
        yield problem(f"features cannot be computed: {facts['torchvision_error']}", "See the line above, if any.")
    elif facts.get("mended"):
        yield good(
            f"torchvision {facts['torchvision']} loads beside torch {facts['torch']} without its C++ operators, "
            "which Sightword does not use"
        )
    elif "torchvision" in facts:
        yield good(f"torchvision {facts['torchvision']} loads beside torch {facts['torch']}")
    elif facts.get("late"):
        yield warning(
            "torchvision takes a minute or more to load", "Look whether the disk or the network folder is slow."
        )
    if "torchvision" in facts and facts.get("failed"):
        yield warning(f"sizes are not known ({facts['failed']})", "Look at train and features in params.yaml.")


def _declared() -> Iterator[Note]:
    """Which torch torchvision was built for, as it says itself."""
    try:
        built = [Requirement(text) for text in metadata.requires("torchvision") or []]
        have = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return  # that it is missing stands in another line
    for requirement in built:
        if requirement.name == "torch" and not requirement.specifier.contains(have, prereleases=True):
            yield problem(
                f"torchvision {metadata.version('torchvision')} needs torch {requirement.specifier}, not {have}",
                "Install a pair that fits, such as the one in constraints.txt: `make install`.",
            )


def _installed() -> dict[str, str]:
    """Versions by normalised name; of a package that is there twice, the one that is imported."""
    found: dict[str, str] = {}
    for one in metadata.distributions():
        name: Any = one.metadata["Name"]  # None where an installation was cut off
        if name:
            found.setdefault(canonicalize_name(name), one.version)
    return found


def _asked(project: Path | None) -> list[Requirement]:
    """Return what the pipeline needs, by the checkout's pyproject.toml, else by the installation."""
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
    found = []
    for text in texts:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": "pipeline"}):
            found.append(requirement)
    return found


def _pins(project: Path | None) -> dict[str, str]:
    """The versions in constraints.txt by normalised name."""
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
    """Whether a version is the pinned one; what follows a plus sign only says how it was built."""
    try:
        return Version(installed).public == Version(pin).public
    except InvalidVersion:
        return installed == pin
