"""Git, run as a program: commits, experiments, and files as they were."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.lineage.lock import Lock, joined
from pipeline.pipelines import LOCKS
from sightword.errors import LineageError
from sightword.messages import last_line

_EXPERIMENT = re.compile(r"refs/exps/([0-9a-f]{2})/([0-9a-f]{38})/(.+)")
_OBJECT = re.compile(rb"[0-9a-f]+ ([a-z]+) ([0-9]+)\n")  # git's line before an object
ASKED = 50
"""Objects that git is asked for together: their names must fit into a pipe that nobody reads from."""
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Variables by which git would take another repository for the folder's; a hook of git sets them."""


@dataclass(frozen=True)
class Commit:
    """One commit."""

    sha: str
    date: str = ""
    """In ISO 8601."""
    author: str = ""
    subject: str = ""
    experiment: str | None = None
    """The name of an experiment of DVC."""
    baseline: str | None = None
    """Of an experiment: the commit it began from."""

    @property
    def name(self) -> str:
        """The experiment's name, else the first digits of the sha."""
        return self.experiment or self.sha[:7]


def environment() -> dict[str, str]:
    """Return the variables of a git command that works in its folder's repository and takes no optional lock."""
    inherited = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return {**inherited, "GIT_OPTIONAL_LOCKS": "0"}  # reading must not block somebody's commit


def git(folder: Path, *arguments: str, errors: str = "replace", seconds: float | None = None) -> str:
    """Run git in a folder, and return its output; a LineageError tells where git is missing, slow or fails."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, and names that git itself checks
            ["git", *arguments],  # noqa: S607 - the user's own git
            cwd=folder, env={**environment(), "LC_ALL": "C"},  # messages are read below, in English
            capture_output=True, check=False, timeout=seconds,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or "it takes too long"
        raise LineageError(f"git cannot be run ({why})") from None
    if done.returncode:
        raise LineageError(f"git {arguments[0]}: {_complaint(done.stderr.decode(errors='replace'))}")
    return done.stdout.decode(errors=errors)


def git_output(folder: Path, *arguments: str) -> str | None:
    """Return git's output without its last line end; None where git fails, is missing, or takes a minute."""
    with contextlib.suppress(LineageError):
        return git(folder, *arguments, seconds=60).removesuffix("\n")
    return None


def _complaint(output: str) -> str:
    """Return the line of git's standard error with the problem; in another user's folder with git's advice."""
    lines = output.splitlines()
    why = last_line(next((line for line in lines if line.startswith("fatal: ")), output))
    advice = next((line.strip() for line in lines if "safe.directory" in line), "")
    return f"{why} (if you trust its owner: `{advice}`)" if advice else why


class Repository:
    """The git repository around a project's folder, as a context manager; LineageError without git or repository."""

    def __init__(self, project: Path) -> None:
        self._project = project
        try:
            self._prefix = self._run("rev-parse", "--show-prefix").strip()
        except LineageError as error:
            raise LineageError(error.what, where=project, todo="History is read from git.") from None
        self._reader: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *error: object) -> None:
        if self._reader is not None:
            self._reader.communicate()

    @property
    def shallow(self) -> bool:
        """Whether commits are missing before some point."""
        return self._run("rev-parse", "--is-shallow-repository").strip() == "true"

    def head(self) -> Commit | None:
        """Return the commit that is checked out; None before the first."""
        with contextlib.suppress(LineageError):
            return self.commit("HEAD")
        return None

    def commit(self, revision: str) -> Commit:
        """Return the commit of a branch, tag, sha or experiment; LineageError where none or several have the name."""
        if experiments := [commit for commit in self.experiments() if commit.experiment == revision]:
            if len(experiments) == 1:
                return experiments[0]
            shas = ", ".join(commit.sha[:7] for commit in experiments)
            raise LineageError("several experiments have this name", where=revision, todo=f"Name a commit: {shas}.")
        if not revision.startswith(("-", "^")):
            with contextlib.suppress(LineageError):
                # Of a range (`a..b`) `git log` alone would take one end, or find nothing to show.
                sha = self._run("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
                return self._log("-1", sha, "--")[0]
        todo = "`git log` and `dvc exp show` have the names."
        if self.shallow:
            todo += " This clone is shallow: `git fetch --unshallow` brings the commits that are missing."
        raise LineageError("no commit, branch or experiment has this name", where=revision, todo=todo)

    def commits(self, paths: Sequence[str], *, start: str = "HEAD", everywhere: bool = False) -> list[Commit]:
        """Return the commits up to ``start``, or everywhere, that changed one of some paths, newest first."""
        if self.head() is None:
            return []
        which = ["--branches", "--remotes", "--tags", start] if everywhere else [start]
        return self._log("--date-order", *which, "--", *paths)

    def before(self, time: str) -> str | None:
        """Return the sha of the newest commit up to HEAD that is not younger than a time."""
        return self._run("rev-list", "-1", f"--before={time}", "HEAD").strip() or None

    def experiments(self) -> list[Commit]:
        """Return DVC's experiments, oldest first."""
        fields = ["%(refname)", "%(objectname)", "%(committerdate:iso-strict)", "%(authorname)", "%(contents:subject)"]
        output = self._run("for-each-ref", "refs/exps", f"--format={'%1f'.join(fields)}")
        commits = [
            Commit(sha, date, author, subject, experiment=match[3], baseline=match[1] + match[2])
            for ref, sha, date, author, subject in (line.split("\x1f", 4) for line in output.split("\n") if line)
            if (match := _EXPERIMENT.fullmatch(ref))
        ]
        return sorted(commits, key=lambda one: (one.date, one.name))

    def lock(self, commit: Commit, name: str = "") -> Lock:
        """Return the locks of a commit, which the user called ``name``; LineageError without a readable one."""
        texts = next(self.lock_texts([commit]))
        if not texts:
            raise LineageError("nothing has run at this commit (`dvc repro`, then commit)", where=name or commit.name)
        return joined(texts, of=f" of {commit.name}")

    def lock_or_none(self, commit: Commit) -> Lock | None:
        """Return the locks of a commit that can be read; None without one."""
        lock = joined(next(self.lock_texts([commit])), lenient=True)
        return lock if lock.entries else None

    def lock_texts(self, commits: Sequence[Commit]) -> Iterator[dict[str, str]]:
        """Yield the texts of the locks of each commit, by their paths."""
        texts = self._objects([f"{commit.sha}:{self._prefix}{path}" for commit in commits for path in self._locks])
        for _ in commits:
            read = {path: next(texts) for path in self._locks}
            yield {path: text.decode(errors="replace") for path, text in read.items() if text is not None}

    @functools.cached_property
    def _locks(self) -> list[str]:
        """The paths of the locks of all pipelines that any commit has."""
        output = self._run("log", "--all", "--format=", "--name-only", "-z", "--relative", "--", *LOCKS)
        return sorted({path for path in output.split("\0") if path and not path.startswith(".")})

    def read(self, revision: str, path: str) -> bytes | None:
        """Return a file of a commit, by its path from the project's folder; None where it was not there."""
        if "\n" in path:  # git reads a name a line
            return None
        return next(self._objects([f"{revision}:{self._prefix}{path}"]))

    def versions(self, folder: str) -> list[tuple[str, bytes]]:
        """Return each version that any commit has of the files below a folder, with the name of the file."""
        output = self._run("rev-list", "--all", "--full-history", "--objects", "--", folder)
        blobs = [line.split(" ", 1) for line in output.splitlines() if " " in line and line.endswith(".json")]
        texts = self._objects([sha for sha, _ in blobs])
        return [(name, text) for (_, name), text in zip(blobs, texts, strict=True) if text is not None]

    def _objects(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of objects of git; None where there is no file of this name."""
        if self._reader is None:
            self._reader = subprocess.Popen(
                ["git", "cat-file", "--batch"],  # noqa: S607 - the user's own git
                cwd=self._project, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        asked, answers = self._reader.stdin, self._reader.stdout
        assert asked is not None
        assert answers is not None
        for first in range(0, len(names), ASKED):
            some = names[first : first + ASKED]
            asked.write("".join(f"{name}\n" for name in some).encode())
            asked.flush()
            headers = (_OBJECT.fullmatch(answers.readline()) for _ in some)
            texts = [(header[1], answers.read(int(header[2]) + 1)[:-1]) if header else (b"", b"") for header in headers]
            yield from (text if kind == b"blob" else None for kind, text in texts)  # nothing is left in the pipe

    def files(self, revision: str, folder: str) -> list[str]:
        """Return the tracked files in a folder of a commit, from the folder."""
        output = self._run("ls-tree", "-r", "-z", "--name-only", revision, "--", f"{folder}/")
        return [name.removeprefix(f"{folder}/") for name in output.split("\0") if name]

    def changed_files(self, revisions: Sequence[str], path: str) -> list[str]:
        """Return the files at or below a path that differ between two commits, or between one and the workspace."""
        output = self._run("diff", "--name-only", "-z", "--relative", *revisions, "--", path)
        return [name for name in output.split("\0") if name]

    def _log(self, *arguments: str) -> list[Commit]:
        output = self._run("log", "--format=%H%x1f%cI%x1f%an%x1f%s", *arguments)
        return [Commit(*line.split("\x1f", 3)) for line in output.split("\n") if line.count("\x1f") >= 3]

    def _run(self, *arguments: str) -> str:
        return git(self._project, *arguments)
