"""Clones of the project in which experiments run, one for each slot.

``dvc exp run``, also with ``--temp``, stashes the user's files, and leaves them so when killed. A clone has a working
tree, locks and references of its own, and shares git's objects and DVC's cache; an experiment is fetched from the
clone as one reference, whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipeline.experiments.baseline import Baseline, git
from pipeline.lineage.documents import parse
from pipeline.lineage.files import Cache
from pipeline.lineage.lock import read_lock
from pipeline.pipelines import pipelines
from sightword.errors import LineageError, SetupError
from sightword.io.files import write_text
from sightword.messages import last_line

DVC = [sys.executable, "-m", "dvc"]
"""The command that is DVC."""
TRIES = 6
"""Number of tries of a fetch, as another process may hold a lock of git."""


@dataclass(frozen=True)
class Clone:
    """One clone of a project."""

    folder: Path
    """The clone's folder; :meth:`make` creates it."""
    baseline: Baseline
    environment: Mapping[str, str]
    """The environment of all processes in the clone."""

    @property
    def project(self) -> Path:
        """The project's folder in the clone."""
        return self.folder / self.baseline.below

    def make(self, cache: str) -> None:
        """Clone the project, with DVC's cache at the absolute path ``cache``; LineageError or SetupError on failure."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        git(self.baseline.root, "clone", "--quiet", "--shared", "--no-checkout", ".", os.fspath(self.folder))
        for key in ("user.name", "user.email"):  # a clone inherits all settings but those of the repository
            with contextlib.suppress(LineageError):  # not set
                git(self.folder, "config", key, git(self.baseline.root, "config", "--get", key).strip())
        self._clean()
        local = self.baseline.project / ".dvc" / "config.local"
        if local.is_file():
            shutil.copy2(local, self.project / ".dvc" / "config.local")
        run_dvc("config", "--local", "cache.dir", cache, folder=self.project, environment=self.environment)

    def _clean(self) -> None:
        """Restore the commit's files; outputs that DVC keeps stay."""
        (self.folder / ".git" / "index.lock").unlink(missing_ok=True)
        git(self.folder, "checkout", "--quiet", "--force", "--detach", self.baseline.commit)
        git(self.folder, "clean", "-fdq")

    def begin(self, params: str, executed: Container[str]) -> None:
        """Prepare an experiment with this text of the pipeline's ``params.yaml``; LineageError for a broken lock.

        Args:
            params: the text.
            executed: the addresses of the stages, of all pipelines, that the experiment may run.
        """
        self._clean()
        (self.project / self.baseline.pipeline.params).write_bytes(params.encode())
        self._forget_absent(executed)

    def _forget_absent(self, executed: Container[str]) -> None:
        """Remove stages from the locks whose output folders DVC's cache lacks.

        ``dvc exp run`` looks for such folders even of stages that it has just run anew, and fails in some orders of
        the stages. The entries of stages that do not run stay, since the experiment takes them over.
        """
        cache = Cache(self.project)
        for pipeline in pipelines(self.project):
            path = self.project / pipeline.lock
            if not path.is_file():
                continue
            text = path.read_text(encoding="utf-8")
            entries = read_lock(text, path).entries.values()
            ran = [entry for entry in entries if pipeline.address(entry.name) in executed]
            absent = {entry.name for entry in ran for out in entry.outs if out.folder and not cache.file(out.md5)}
            if absent:
                lock = parse(text, path)
                stages = {name: stage for name, stage in lock["stages"].items() if name not in absent}
                write_text(path, yaml.safe_dump({**lock, "stages": stages}, sort_keys=False))

    def fetch(self, name: str, *, replace: bool) -> bool:
        """Fetch an experiment into the project; return whether there is one of that name."""
        ref = f"{self.baseline.refs}{name}"
        if not git(self.folder, "for-each-ref", ref):
            return False
        source = [os.fspath(self.folder), f"{'+' if replace else ''}{ref}:{ref}"]
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc")
        for attempt in range(TRIES):
            try:
                git(self.baseline.root, "fetch", *options, *source)
                break
            except LineageError:
                if attempt == TRIES - 1:
                    raise
                time.sleep(0.2 * 2**attempt)
        return True

    def fetch_facts(self) -> None:
        """Move the facts that the stages recorded of their runs into the project."""
        for facts in sorted((self.project / "runs").glob("*.json")):
            write_text(self.baseline.project / "runs" / facts.name, facts.read_text(encoding="utf-8"))
            facts.unlink()


def run_dvc(*arguments: str, folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Run a short DVC command and return its output; SetupError where it fails."""
    own = {**environment, "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run([*DVC, *arguments], cwd=folder, env=own, capture_output=True, text=True, check=False)  # noqa: S603 - DVC with fixed words
    if done.returncode:
        raise SetupError(f"dvc {' '.join(arguments[:2])} failed: {last_line(done.stderr)}", where=folder)
    return done.stdout.strip()
