"""A working copy of this project in another folder, as a fresh clone would be."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fork_server
from ruamel.yaml import YAML


def environment(store: Path, *, forked: bool = True) -> dict[str, str]:
    """The variables of commands in a checkout whose caches are in ``store``."""
    programs = [str(fork_server.programs())] * forked + [str(Path(sys.executable).parent)]
    found = {
        **os.environ,
        "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(store / "dvc"),
        "SIGHTWORD_STORE": str(store / "features"),
        "SIGHTWORD_SCRATCH": str(store / "scratch"),
        "GIT_AUTHOR_NAME": "test",
        "GIT_AUTHOR_EMAIL": "test@example.org",
        "GIT_COMMITTER_NAME": "test",
        "GIT_COMMITTER_EMAIL": "test@example.org",
    }
    found.pop("PYTHONDONTWRITEBYTECODE", None)  # the code is new there: once is enough to compile it
    return found


class Checkout:
    """A git repository with the tracked files of this one, in which commands can be run.

    Args:
        source: the repository.
        folder: where the copy goes.
        store: caches of its own, so that nothing comes from elsewhere.
        forked: start Python, DVC and Sightword quickly (see ``fork_server``), not as a user does.
    """

    def __init__(self, source: Path, folder: Path, store: Path, *, forked: bool = True) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=source,
            check=True,
            capture_output=True,
        ).stdout.decode()
        for name in filter(None, listed.split("\0")):
            if (source / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, folder / name)
        self.environment = environment(store, forked=forked)
        self.run("git", "init", "-q")
        self.run("git", "add", "-A")
        self.run("git", "commit", "-qm", "start")

    def copy(self, folder: Path) -> Checkout:
        """The same elsewhere, with its history and data; caches outside of it are shared."""
        shutil.copytree(self.folder, folder, symlinks=True)
        other = copy.copy(self)
        other.folder = folder
        return other

    def run(self, *command: str, ok: bool = True, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a command here; ``extra`` are environment variables."""
        done = subprocess.run(
            command, cwd=self.folder, env={**self.environment, **extra}, capture_output=True, text=True, check=False
        )
        if ok:
            assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    def change(self, file: str, **values: object) -> None:
        """Change entries of a YAML file, named ``section__key``; its comments stay."""
        change(self.folder / file, **values)

    def locked(self) -> dict[str, dict[str, str]]:
        """The hash of each output in dvc.lock, by stage and path."""
        return locked(self.folder)


def change(path: Path, **values: object) -> None:
    """Change entries of a YAML file, named ``section__key``; its comments stay."""
    yaml = YAML()
    document = yaml.load(path.read_text())
    for name, value in values.items():
        *places, key = name.split("__")
        entry = document
        for place in places:
            entry = entry[place]
        assert key in entry, name
        entry[key] = value
    with path.open("w") as stream:
        yaml.dump(document, stream)


def locked(folder: Path) -> dict[str, dict[str, str]]:
    """The hash of each output in a project's dvc.lock, by stage and path."""
    lock = YAML(typ="safe", pure=True).load((folder / "dvc.lock").read_text())
    return {name: {out["path"]: out["md5"] for out in stage.get("outs", [])} for name, stage in lock["stages"].items()}
