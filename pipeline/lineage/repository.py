"""Git, run as a program: commits, experiments, and files as they were."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from sightword.errors import LineageError
from sightword.text import last_line

_EXPERIMENT = re.compile(r"refs/exps/([0-9a-f]{2}/[0-9a-f]{38})/(.+)")
_OBJECT = re.compile(rb"([0-9a-f]+) ([a-z]+) ([0-9]+)\n")
"""How git announces an object that it has."""
_FIELDS = "%H%x1f%cI%x1f%an%x1f%s"


@dataclass(frozen=True)
class Commit:
    """One commit."""

    sha: str
    date: str
    """When it was made, in ISO 8601."""
    author: str
    subject: str
    experiment: str | None = None
    """Its name, where it is one of DVC's experiments."""
    baseline: str | None = None
    """Of an experiment: the commit it began from."""

    @property
    def name(self) -> str:
        """The experiment's name, else the first digits of the sha."""
        return self.experiment or self.sha[:7]


_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Variables by which git would take another repository for the folder's; a hook of git sets them."""


def environment() -> dict[str, str]:
    """Return the variables of a git command that works in its folder's repository and takes no optional lock."""
    own = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return {**own, "GIT_OPTIONAL_LOCKS": "0"}  # looking must not be in the way of somebody's commit


def git(
    folder: Path, *arguments: str, text: str | None = None, errors: str = "replace", seconds: float | None = None
) -> str:
    """Run a git command and return what it prints.

    Args:
        folder: where it runs.
        arguments: the command's.
        text: for its standard input.
        errors: what becomes of bytes that are not UTF-8, as in :meth:`bytes.decode`.
        seconds: that it may take.

    Raises:
        LineageError: git is not installed, takes too long, or fails; with what it complains of.
    """
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, and names that git itself checks
            ["git", *arguments],  # noqa: S607 - the user's own git
            cwd=folder, env=environment(), capture_output=True, check=False, timeout=seconds,
            input=None if text is None else text.encode(errors="surrogateescape"),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or "it takes too long"
        raise LineageError(f"git cannot be run ({why})") from None
    if done.returncode:
        raise LineageError(f"git {arguments[0]}: {complaint(done.stderr.decode(errors='replace'))}")
    return done.stdout.decode(errors=errors)


def complaint(output: str) -> str:
    """Return the line of git's standard error that says what is wrong; in another user's folder with git's advice."""
    lines = output.splitlines()
    why = last_line(next((line for line in lines if line.startswith("fatal: ")), output))
    advice = next((line.strip() for line in lines if "safe.directory" in line), "")
    return f"{why} (if you trust its owner: `{advice}`)" if advice else why


class Repository:
    """The git repository that a project's folder is in, as a context manager.

    Args:
        project: the folder with ``dvc.lock``; it may be below the repository's own.

    Raises:
        LineageError: there is no git, or no repository here.
    """

    def __init__(self, project: Path) -> None:
        self._project = project
        try:
            self.bare = self._run("rev-parse", "--is-bare-repository").strip() == "true"
            self._prefix = "" if self.bare else self._run("rev-parse", "--show-prefix").strip()
        except LineageError as error:
            raise LineageError(error.what, where=project, todo="History is read from git.") from None
        self._reader: subprocess.Popen[bytes] | None = None
        self._digest = 20

    def __enter__(self) -> Repository:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.communicate()

    @property
    def shallow(self) -> bool:
        """Whether commits are missing before some point."""
        return self._run("rev-parse", "--is-shallow-repository").strip() == "true"

    def head(self) -> Commit | None:
        """The commit that is checked out; None before the first."""
        try:
            return self.commit("HEAD")
        except LineageError:
            return None

    def commit(self, revision: str) -> Commit:
        """The commit of a branch, tag, sha, or name of an experiment.

        Raises:
            LineageError: there is none of this name, or several experiments have it.
        """
        experiments = [one for one in self.experiments() if one.experiment == revision]
        if len(experiments) == 1:
            return experiments[0]
        if len(experiments) > 1:
            shas = ", ".join(one.sha[:7] for one in experiments)
            raise LineageError("several experiments have this name", where=revision, todo=f"Name a commit: {shas}.")
        if revision.startswith(("-", "^")):
            raise LineageError("is no commit", where=revision)
        try:
            # Of a range (`a..b`) `git log` alone would take one end, or find nothing to show.
            sha = self._run("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
            return self._commits(["log", "-1", sha, "--"])[0]
        except LineageError:
            todo = "`git log` and `dvc exp show` have the names."
            if self.shallow:
                todo += " This clone is shallow: `git fetch --unshallow` brings the commits that are missing."
            raise LineageError("is no commit, branch or experiment here", where=revision, todo=todo) from None

    def commits(self, paths: Sequence[str], *, start: str = "HEAD", everywhere: bool = False) -> list[Commit]:
        """The commits that changed one of some paths, newest first.

        Args:
            paths: from the project's folder.
            start: a commit: it and what it came from are meant; default: what is checked out.
            everywhere: those of all branches and tags too.
        """
        if self.head() is None:
            return []
        which = ["--branches", "--remotes", "--tags", start] if everywhere else [start]
        return self._commits(["log", "--date-order", *which, "--", *paths])

    def experiments(self) -> list[Commit]:
        """DVC's experiments, oldest first."""
        said = self._run("for-each-ref", "refs/exps", "--format=%(refname)")
        named = {ref: match for ref in said.splitlines() if (match := _EXPERIMENT.fullmatch(ref))}
        if not named:
            return []
        found = self._commits(["log", "--no-walk=unsorted", *named, "--"])
        by_sha = {one.sha: one for one in found}
        shas = self._run("rev-parse", *named).split()
        own = [
            replace(one, experiment=match.group(2), baseline=match.group(1).replace("/", ""))
            for sha, match in zip(shas, named.values(), strict=True)
            if (one := by_sha.get(sha))
        ]
        return sorted(own, key=lambda one: (one.date, one.name))

    def read(self, revision: str, path: str) -> bytes | None:
        """A file as it was in a commit; None where it was not there.

        Args:
            revision: a commit.
            path: from the project's folder.
        """
        kind, text = self._object(revision, path)
        return text if kind == "blob" else None

    def folders(self, revision: str) -> list[str]:
        """The names of the folders directly in the project's folder, as it was in a commit."""
        kind, rest = self._object(revision, "")
        found = []
        while kind == "tree" and rest:
            head, _, rest = rest.partition(b"\0")
            mode, _, name = head.partition(b" ")
            rest = rest[self._digest :]
            if mode == b"40000":
                found.append(name.decode(errors="replace"))
        return found

    def _object(self, revision: str, path: str) -> tuple[str, bytes]:
        """The kind and the bytes of an object of git; an empty kind where there is none."""
        if "\n" in path:
            return "", b""  # git reads one name from each line
        if self._reader is None:
            self._reader = subprocess.Popen(
                ["git", "cat-file", "--batch"],  # noqa: S607 - the user's own git
                cwd=self._project,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        self._reader.stdin.write(f"{revision}:{self._prefix}{path}\n".encode())
        self._reader.stdin.flush()
        found = _OBJECT.fullmatch(self._reader.stdout.readline())
        if found is None:
            return "", b""
        text = self._reader.stdout.read(int(found.group(3)))
        self._reader.stdout.read(1)
        self._digest = len(found.group(1)) // 2
        return found.group(2).decode(), text

    def files(self, revision: str, folder: str) -> list[str]:
        """The tracked files in a folder as it was in a commit, from the folder."""
        said = self._run("ls-tree", "-r", "-z", "--name-only", revision, "--", f"{folder}/")
        return [name.removeprefix(f"{folder}/") for name in said.split("\0") if name]

    def changed_files(self, revisions: Sequence[str], path: str) -> list[str]:
        """The files at or below a path that differ between two commits, or one and what lies here."""
        said = self._run("diff", "--name-only", "-z", "--relative", *revisions, "--", path)
        return [name for name in said.split("\0") if name]

    def uncommitted(self, paths: Iterable[str]) -> list[str]:
        """Which of some paths, or files below them, differ from the last commit; untracked ones too."""
        said = self._run("status", "--porcelain", "-z", "--no-renames", "--", *paths)
        return [item[3:].removeprefix(self._prefix) for item in said.split("\0") if item]

    def _commits(self, arguments: list[str]) -> list[Commit]:
        said = self._run(arguments[0], f"--format={_FIELDS}", *arguments[1:])
        return [Commit(*line.split("\x1f", 3)) for line in said.splitlines() if line.count("\x1f") >= 3]

    def _run(self, *arguments: str) -> str:
        return git(self._project, *arguments)
