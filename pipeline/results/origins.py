"""Which raw data nobody else can have: neither git nor `sightword fetch` brings the file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from pipeline.downloads.sources import Source, data_sets
from pipeline.lineage.lock import Artefact, within
from pipeline.lineage.repository import Repository
from pipeline.lineage.workspace import Workspace

RAW = "data/raw"
"""The folder of the data sets."""


def private_files(inputs: Iterable[Artefact], here: Workspace, repository: Repository, commit: str) -> list[str]:
    """Return the files of some inputs that are neither in a commit with their bytes, nor of a data set to be fetched.

    A data set's file is known by its name. An input whose files neither the workspace nor DVC's cache can list counts
    as one file.

    Args:
        inputs: data that no stage made, with its hashes.
        here: the workspace, and DVC's cache.
        repository: the project's repository.
        commit: the commit that everybody has.
    """
    found = []
    for one in inputs:
        for name, md5 in _files(one, here).items():
            path = f"{one.path}/{name}".rstrip("/")
            text = repository.read(commit, path)
            in_git = text is not None and hashlib.md5(text, usedforsecurity=False).hexdigest() == md5
            if not in_git and not fetched_by(path):
                found.append(path)
    return found


def _files(one: Artefact, here: Workspace) -> Mapping[str, str]:
    """Return the MD5 of each file by its path in an input; of a file, and of a folder that nobody can list, its own."""
    if files := here.cache.files(one):
        return files
    found = here.hashed(one.path)
    return found.files if found and found.files is not None and found.md5 == one.md5 else {"": one.md5}


def fetched_by(path: str) -> str | None:
    """Return the name of the data set that has a file, or a whole folder, by their path; None for another path."""
    for data_set in data_sets().values():
        folder = f"{RAW}/{data_set.folder}".rstrip("/")
        if data_set.folder and within(path, folder):
            inside = path.removeprefix(folder).lstrip("/")
            if not inside or any(_has(source, inside) for source in data_set.sources):
                return data_set.name
    return None


def _has(source: Source, path: str) -> bool:
    """Return whether a published file, unpacked, has a path of the data set's folder, or something below it."""
    if path in source.wanted() or any(one.startswith(f"{path}/") for one in source.wanted()):
        return True
    for pattern, folder in source.into.items():
        below = path if folder == "." else path.removeprefix(f"{folder}/")
        inside = folder == "." or within(path, folder)
        name = pattern.rpartition("/")[2]
        if inside and (path == folder or name == "**" or ("/" not in below and fnmatchcase(below, name))):
            return True
    return False


def covers(paths: Iterable[str], file: str) -> bool:
    """Return whether one of some paths is a file, or a folder above it."""
    return any(within(file, path.rstrip("/")) for path in paths)


def whereabouts(path: str, project: Path) -> str:
    """Return a sentence on how to have an input that is not in the project."""
    if (project / f"{path}.dvc").is_file():
        return f"`dvc pull {path}.dvc`, or `dvc checkout`, brings it."
    name = fetched_by(path)
    return f"`sightword fetch {name}` brings it." if name else "Neither git nor `sightword fetch` has it."
