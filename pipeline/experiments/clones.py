"""The copies of the project in which experiments run, one for each slot.

``dvc exp run`` stashes what stands in the working tree, detaches HEAD and puts all back, also with ``--temp`` and
``--queue``: killed in that moment it leaves the user's files in a stash, and files edited meanwhile can be lost. A copy
has a working tree, locks and references of its own. It shares git's objects and DVC's cache, and an experiment is
fetched from it as DVC fetches those of its own temporary folders: one reference, whole or not at all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.experiments.baseline import OWN, Ground, git
from sightword.errors import SetupError, SweepError
from sightword.files import write_text

TRIES = 6
"""How often git is asked, where another process may be at work in the repository."""


class Copy:
    """One copy of a project.

    Args:
        folder: where it is; made anew by :meth:`make`.
        ground: the project and its commit.
        dvc: the command that is DVC.
        environment: of all processes that work in it.
    """

    def __init__(self, folder: Path, ground: Ground, dvc: Sequence[str], environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.project = folder / ground.below
        self.environment = {name: value for name, value in environment.items() if name not in OWN}
        self._ground, self._dvc = ground, list(dvc)

    def make(self, cache: str) -> None:
        """Make it anew.

        Args:
            cache: DVC's cache, an absolute path.

        Raises:
            SweepError: git or DVC did not do it.
        """
        remove(self.folder)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        git(self._ground.root, "clone", "--quiet", "--shared", "--no-checkout", ".", os.fspath(self.folder))
        for key in ("user.name", "user.email"):  # of this repository alone; the rest is found by itself
            value = _setting(self._ground.root, key)
            if value:
                git(self.folder, "config", key, value)
        self.clean()
        local = self._ground.project / ".dvc" / "config.local"
        if local.is_file():
            shutil.copy2(local, self.project / ".dvc" / "config.local")
        run(self._dvc, "config", "--local", "cache.dir", cache, folder=self.project, environment=self.environment)

    def clean(self) -> None:
        """As the commit has it, whatever an experiment has left; outputs that DVC keeps stay."""
        (self.folder / ".git" / "index.lock").unlink(missing_ok=True)
        git(self.folder, "checkout", "--quiet", "--force", "--detach", self._ground.commit)
        git(self.folder, "clean", "-fdq")
        left = git(self.folder, "for-each-ref", "--format=delete %(refname)", "refs/exps/")
        if left:
            git(self.folder, "update-ref", "--stdin", text=left)

    def begin(self, params: str) -> None:
        """Make ready for an experiment with this ``params.yaml``."""
        self.clean()
        (self.project / "params.yaml").write_bytes(params.encode())

    def keep(self, name: str, *, replace: bool) -> bool:
        """Fetch an experiment into the project.

        Returns:
            False where there is none of that name.

        Raises:
            SweepError: git did not do it.
        """
        ref = f"{self._ground.refs}{name}"
        if not git(self.folder, "for-each-ref", ref):
            return False
        for attempt in range(TRIES):
            try:
                force = "+" if replace else ""
                git(self._ground.root, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
                    os.fspath(self.folder), f"{force}{ref}:{ref}")  # fmt: skip
            except SweepError:
                if attempt == TRIES - 1:
                    raise
                time.sleep(0.2 * 2**attempt)
            else:
                break
        return True

    def keep_facts(self) -> None:
        """What the stages have written of their runs goes where the project has such facts."""
        for facts in sorted((self.project / "runs").glob("*.json")):
            write_text(self._ground.project / "runs" / facts.name, facts.read_text(encoding="utf-8"))
            facts.unlink()


def remove(folder: Path) -> None:
    """Delete a copy, or what is left of one."""
    if folder.is_dir():
        shutil.rmtree(folder)


def run(dvc: Sequence[str], *arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """What a short DVC command prints.

    Raises:
        SetupError: it failed.
    """
    done = subprocess.run(  # noqa: S603 - the caller's DVC with fixed words
        [*dvc, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SetupError(f"dvc {arguments[0]} failed: {said[-1].removeprefix('ERROR: ')}", where=folder)
    return done.stdout.strip()


def _setting(root: Path, key: str) -> str:
    try:
        return git(root, "config", "--get", key).strip()
    except SweepError:
        return ""
