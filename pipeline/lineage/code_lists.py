"""The code of a stage as a list of hashes: what `deps` name in a project that has no copy of the code.

Such a project runs the installed program. Its ``code/STAGE.sha256`` has the hash of each file of the program that the
stage depends on, in the format of `sha256sum`, so DVC and git keep which code made a result. The launcher compares the
list with the program before a stage works (:func:`check`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.lineage.files import md5_of_text
from pipeline.lineage.lock import LISTS, changes, is_code, within
from pipeline.lineage.repository import Repository
from pipeline.pipelines import Pipeline, shipped
from sightword import __version__
from sightword.errors import SetupError, SightwordError
from sightword.messages import and_more

SUFFIX = ".sha256"
RENEW = "`sightword init --renew` takes over the installed program; then `dvc repro` runs what its changes reach"
_HOME = Path(__file__).resolve().parents[2]
"""The folder of the packages of the running program."""
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")

Hashes = dict[str, str]
"""The sha256 of files of the program, as hex digits, by their paths from the folder of the packages."""


def is_list(path: str) -> bool:
    """Return whether a path of a project names a list."""
    return within(path, LISTS) and path.endswith(SUFFIX)


def path_of(folder: str, stage: str) -> str:
    """Return the path of a stage's list in the pipeline of a folder; the first pipeline's folder is empty."""
    return "/".join(filter(None, (LISTS, folder, f"{stage}{SUFFIX}")))


def installed(path: str) -> Hashes:
    """Return what the list at a path would have of the running program; nothing for a stage that it does not know."""
    place = PurePosixPath(path)
    rooms = _rooms("/".join(place.parts[1:-1])).get(place.stem, [])
    files = (file for room in rooms for file in [_HOME / room, *(_HOME / room).rglob("*")] if _is_source(file))
    return {file.relative_to(_HOME).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}


@functools.lru_cache
def _rooms(folder: str) -> dict[str, list[str]]:
    """Return the code that ``deps`` name, by the stages of the pipeline in a folder; nothing for an unknown one."""
    with contextlib.suppress(SightwordError):
        stages = Pipeline(shipped(), folder).stages
        return {name: list(filter(is_code, stage.get("deps", ()))) for name, stage in stages.items()}
    return {}


def _is_source(path: Path) -> bool:
    """Return whether a path is a file of source code, and not left by Python or an editor."""
    odd = path.name.startswith(".") or path.suffix in (".pyc", ".tmp", ".old", ".swp") or path.name.endswith("~")
    return path.is_file() and "__pycache__" not in path.parts and not odd


def text(hashes: Mapping[str, str]) -> str:
    """Return the text of a list."""
    return "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))


def parse(written: bytes) -> Hashes:
    """Return the hashes in the text of a list; other lines are left out."""
    lines = map(_LINE.fullmatch, written.decode(errors="replace").splitlines())
    return {line[2]: line[1] for line in lines if line}


def read(project: Path, path: str) -> Hashes:
    """Return the hashes in a list of a project; nothing where it cannot be read."""
    with contextlib.suppress(OSError):
        return parse((project / path).read_bytes())
    return {}


def find(path: str, md5: str, project: Path | None, repository: Repository | None) -> Hashes | None:
    """Return the hashes in the list that had an MD5 at a path: as it lies in the project, or as a commit has it."""
    file = project / path if project else None
    if file and file.is_file() and md5_of_text(written := file.read_bytes()) == md5:
        return parse(written)
    commits = repository.commits([path], everywhere=True) if repository else []
    earlier = (repository.read(commit.sha, path) or b"" for commit in commits if repository)
    return next((parse(written) for written in earlier if md5_of_text(written) == md5), None)


def changed(
    path: str, before: str | None, after: str | None, project: Path, repository: Repository | None
) -> list[str]:
    """Return the files in which two lists at a path differ, given by MD5; the path where one of both is not known."""
    lists = [find(path, md5, project, repository) if md5 else None for md5 in (before, after)]
    return sorted(changes(*(one for one in lists if one is not None))) if None not in lists else [path]


def outdated(project: Path) -> dict[str, list[str]]:
    """Return by list of a project the files in which the running program differs from the list."""
    paths = sorted(file.relative_to(project).as_posix() for file in (project / LISTS).rglob(f"*{SUFFIX}"))
    changed_files = {path: sorted(changes(read(project, path), installed(path))) for path in paths}
    return {path: names for path, names in changed_files.items() if names}


def check(described: Mapping[str, Any], project: Path) -> None:
    """Check that the running program is the one of the lists of a stage, which is given as in ``dvc.yaml``.

    Raises:
        SetupError: a list is not there, or files of the program differ.
    """
    for path in filter(is_list, described.get("deps", ())):
        if names := sorted(changes(read(project, path), installed(path))):
            what = f"the installed sightword {__version__} has other code than this list: {and_more(names, 5)}"
            raise SetupError(what, where=path, todo=f"{RENEW}. Or install the earlier program again.")
