"""People of a lab: users of the system, made for a test and removed after it, and clones with caches of their own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import fork_server
from checkout import Checkout


class Clone(Checkout):
    """Another person's clone.

    Args:
        origin: the bare repository.
        folder: where it goes.
        like: whose environment this person has, with other caches.
    """

    def __init__(self, origin: Path, folder: Path, like: Checkout) -> None:
        self.folder = folder / "clone"
        own = folder / "own"
        (folder / "home").mkdir(parents=True)
        self.environment = {
            **like.environment,
            "HOME": str(folder / "home"),
            "DVC_SITE_CACHE_DIR": str(own / "dvc"),
            "SIGHTWORD_STORE": str(own / "features"),
            "SIGHTWORD_SCRATCH": str(own / "scratch"),
        }
        subprocess.run(["git", "clone", "-q", str(origin), str(self.folder)], check=True, env=self.environment)


def ran(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The stages that DVC ran, in order."""
    return re.findall(r"Running stage '(\w+)'", done.stdout)


def restored(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The stages whose results DVC took from its run-cache."""
    return re.findall(r"Stage '(\w+)' is cached", done.stdout)


def results(checkout: Checkout) -> dict[str, object]:
    """All metrics, by file."""
    return {path.name: json.loads(path.read_text()) for path in sorted((checkout.folder / "metrics").glob("*.json"))}


TOOLS = ("useradd", "userdel", "groupadd", "groupdel", "setpriv", "unshare", "mount")


def lacking() -> str:
    """Why no users can be made here; empty where they can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "making users needs root on Linux"
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    return f"missing programs: {', '.join(missing)}" if missing else ""


def closed_above(path: Path) -> Path | None:
    """The topmost folder above a path that other users cannot pass through."""
    for folder in reversed([*path.parents, *path.resolve().parents]):
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def opening() -> list[str]:
    """A command before another that lets every user see this Python, wherever it is installed.

    An interpreter in root's home is closed to others. Its folders are not opened: the
    command gets mounts of its own, where nothing but the interpreter is in their place.
    """
    trees = sorted({Path(sys.prefix), Path(sys.base_prefix).resolve()})
    hidden: dict[Path, list[Path]] = {}
    for tree in trees:
        if folder := closed_above(tree):
            hidden.setdefault(folder, []).append(tree)
    if not hidden:
        return []
    lines = ["set -e", "mask=$(umask)", "umask 022", "stage=$(mktemp -d)"]
    for folder, inside in hidden.items():
        lines += [
            f'mkdir "$stage"/{number} && mount --bind "{tree}" "$stage"/{number}' for number, tree in enumerate(inside)
        ]
        lines += [f'mount -t tmpfs -o mode=755 tmpfs "{folder}"']
        lines += [f'mkdir -p "{tree}" && mount --move "$stage"/{number} "{tree}"' for number, tree in enumerate(inside)]
        lines += ['rmdir "$stage"/*']
    lines += ['rmdir "$stage"', 'umask "$mask"', 'exec "$@"']
    return ["unshare", "-m", "sh", "-c", "\n".join(lines), "sh"]


@dataclass(frozen=True)
class Account:
    """A user of the system."""

    name: str
    home: Path
    before: tuple[str, ...]
    umask: int = 0o022

    @property
    def become(self) -> tuple[str, ...]:
        """A command before another that runs as this user, in all groups that the user is in now."""
        groups = subprocess.run(["id", "-G", self.name], check=True, capture_output=True, text=True).stdout.split()
        who = ("--reuid", self.name, "--regid", self.name, "--groups", ",".join(groups))
        return (*self.before, "setpriv", *who, "--")

    def run(
        self, *command: str, where: Path | None = None, ok: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as this user, with their own environment and umask."""
        variables = {
            "HOME": str(self.home),
            "USER": self.name,
            "LOGNAME": self.name,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "DVC_NO_ANALYTICS": "1",
            "OMP_NUM_THREADS": "1",
            "SIGHTWORD_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
        }
        quick = fork_server.programs(self.before)
        done = subprocess.run(
            [*self.become, *command],
            cwd=where or self.home,
            umask=self.umask,
            env={**variables, "PATH": f"{quick}{os.pathsep}{variables['PATH']}", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if ok:
            assert done.returncode == 0, (
                f"{self.name}: {command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
            )
        return done


@dataclass(frozen=True)
class Lab:
    """Users of one group, and a folder that all of them can reach."""

    folder: Path
    group: str
    users: tuple[Account, ...]


@contextlib.contextmanager
def lab(umasks: Sequence[int], *, join: bool = True) -> Iterator[Lab]:
    """A user for each umask, all in one group beside their own; everything of theirs is removed after.

    Args:
        umasks: of the users.
        join: make the group and put them in; else only remove it.
    """
    token = secrets.token_hex(3)
    group = f"swlab{token}"
    names = [f"sw{letter}{token}" for letter in "abcdef"[: len(umasks)]]
    folder = Path(tempfile.mkdtemp(prefix="sightword-lab-"))
    folder.chmod(0o755)
    try:
        if join:
            subprocess.run(["groupadd", group], check=True)
        for name in names:
            home = folder / "home" / name
            home.parent.mkdir(exist_ok=True)
            subprocess.run(["useradd", "-m", "-U", "-d", str(home), *(["-G", group] if join else []), name], check=True)
        before = tuple(opening())
        users = tuple(
            Account(name, folder / "home" / name, before, umask) for name, umask in zip(names, umasks, strict=True)
        )
        yield Lab(folder, group, users)
    finally:
        for name in names:
            subprocess.run(["userdel", "-f", name], check=False, capture_output=True)
        subprocess.run(["groupdel", group], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
