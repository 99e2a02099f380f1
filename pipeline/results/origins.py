"""Which raw data a run reads, and which files nobody else can have: neither git nor `sightword fetch` brings them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch, fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.downloads.sources import Source, data_sets
from pipeline.lineage.files import Workspace, hash_listing, md5_of_text
from pipeline.lineage.lock import Artefact, Entry, hashes, tracked_hashes, within
from pipeline.lineage.repository import Repository
from sightword.messages import flat

RAW = "data/raw"
"""The folder of the data sets."""
SHARED = ("beside", "entailment", "features", "hypernyms", "pretrained", "ratings", "starts", "text", "word_vectors")
"""The folders in it of which a stage reads what its own parameters name; of any other one it reads all."""
_NOTES = ("README.md", ".gitignore", "*.dvc")
"""Files beside data that no stage reads."""


def files_read(
    chain: Sequence[Entry], inputs: Iterable[Artefact], here: Workspace, repository: Repository, *, head: str
) -> dict[str, dict[str, str]]:
    """Return what a run reads of its raw data: by path the MD5 of each file by its path within.

    Of a shared folder, the paths are those that the parameters of its stages name; a file has the path "" within
    itself. Notes, such as the ``.dvc`` files of `dvc add`, are left out.

    Args:
        chain: the entries of the run's stages.
        inputs: data that no stage made, with its hashes.
        here: the workspace, and DVC's cache.
        repository: the project's repository.
        head: the commit of the run.
    """
    found: dict[str, dict[str, str]] = {}
    for one in inputs:
        files = _data(_files(one, here, repository, head))
        if one.path.removeprefix(f"{RAW}/") in SHARED and "" not in files:
            readers = [entry for entry in chain if one.path in hashes(entry.deps)]
            named = {text.rstrip("/") for entry in readers for text in texts(entry.params)} - {""}
            for name in sorted({text.removeprefix(f"{one.path}/") for text in named}):
                inside = {file[len(name) :].lstrip("/"): md5 for file, md5 in files.items() if within(file, name)}
                found |= {f"{one.path}/{name}": inside} if inside else {}
        elif files:
            found[one.path] = files
    return found


def hash_of(files: Mapping[str, str]) -> str:
    """Return the hash of a file, or DVC's hash of a folder without its notes, from the MD5 of each file."""
    return files[""] if "" in files else hash_listing(_data(files))


def texts(value: Any) -> list[str]:
    """Return all texts in nested values."""
    if isinstance(value, Mapping):
        return [text for one in flat(value).values() for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


def private_files(read: Mapping[str, Mapping[str, str]], repository: Repository, public: str) -> list[str]:
    """Return the files that are neither in a commit with their bytes, nor of a data set to be fetched.

    A data set's file is known by its name.

    Args:
        read: the files that a run reads, by :func:`files_read`.
        repository: the project's repository.
        public: the commit that everybody has.
    """
    found = []
    for place, files in read.items():
        for name, md5 in files.items():
            path = f"{place}/{name}".rstrip("/")
            text = repository.read(public, path)
            in_git = text is not None and md5_of_text(text) == md5
            if not in_git and not fetched_by(path):
                found.append(path)
    return found


def _data(files: Mapping[str, str]) -> dict[str, str]:
    def is_note(name: str) -> bool:
        return any(fnmatch(PurePosixPath(name).name, note) for note in _NOTES)

    return {name: md5 for name, md5 in files.items() if not is_note(name)}


def _files(one: Artefact, here: Workspace, repository: Repository, head: str) -> Mapping[str, str]:
    """Return the MD5 of each file by its path in an input; of a file its own, by an empty path.

    The files are those in DVC's cache, or in the workspace; else those that git, or DVC by a ``.dvc`` file, tracks in a
    commit; else the folder counts as one file.
    """
    if files := here.cache.files(one):
        return files
    found = here.hashed(one.path)
    if found and found.files is not None and found.md5 == one.md5:
        return found.files
    texts = {name: repository.read(head, f"{one.path}/{name}") or b"" for name in repository.files(head, one.path)}
    tracked = {name: md5_of_text(text) for name, text in texts.items() if not name.endswith(".dvc")}
    for name in (name for name in texts if name.endswith(".dvc")):
        hashed = tracked_hashes(texts[name].decode(errors="replace"), f"{one.path}/{name}")
        tracked |= {path.removeprefix(f"{one.path}/"): md5 for path, md5 in hashed.items()}
    return tracked or {"": one.md5}


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
