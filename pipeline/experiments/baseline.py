"""What a sweep stands on: the commit that its experiments start from, and what of it they will see.

Experiments run in copies of a commit. Whatever is neither in it nor tracked by DVC is not there, and this is told
before anything runs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.experiments.plan import Run
from pipeline.lineage import documents
from pipeline.lineage.facts import stage_paths
from pipeline.lineage.repository import complaint
from pipeline.params import params_file
from sightword.errors import LineageError, ParamsError, SetupError, SweepError

OWN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Variables by which git would take another repository for ours; a hook of git sets them."""


def git(folder: Path, *arguments: str, text: str | None = None) -> str:
    """What a git command prints.

    Raises:
        SetupError: there is no git.
        SweepError: the command failed.
    """
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    try:
        done = subprocess.run(  # noqa: S603 - git with fixed words, and names of refs and paths
            ["git", "-C", os.fspath(folder), *arguments],  # noqa: S607 - the user's own git
            capture_output=True, text=True, errors="surrogateescape", env=environment, check=False, input=text,
        )  # fmt: skip
    except FileNotFoundError:
        raise SetupError("git is not installed") from None
    if done.returncode:
        raise SweepError(f"git {arguments[0]} failed: {complaint(done.stderr)}", where=folder)
    return done.stdout


@dataclass(frozen=True)
class Stage:
    """A stage of ``dvc.yaml`` with some parameters."""

    sections: tuple[str, ...]
    deps: tuple[str, ...]
    outs: tuple[str, ...]


@dataclass(frozen=True)
class Ground:
    """A project at one commit."""

    root: Path
    """The folder of git's working tree."""
    project: Path
    """The folder with ``dvc.yaml``; the same, or below."""
    commit: str

    @cached_property
    def below(self) -> str:
        """From the one to the other: empty, or a path with a slash at its end."""
        path = self.project.relative_to(self.root).as_posix()
        return "" if path == "." else f"{path}/"

    @property
    def refs(self) -> str:
        """Where git keeps the experiments that start from this commit."""
        return f"refs/exps/{self.commit[:2]}/{self.commit[2:]}/"

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """The stages of ``dvc.yaml`` at the commit.

        Raises:
            SweepError: it is not there, or cannot be read.
        """
        try:
            stages = documents.parse(git(self.root, "show", f"{self.commit}:{self.below}dvc.yaml"), "dvc.yaml")
            return dict(stages["stages"])
        except (LineageError, KeyError, TypeError, ValueError) as error:
            raise SweepError(f"describes no stages ({error})", where="dvc.yaml") from None

    def stages(self, settings: Mapping[str, Any]) -> dict[str, Stage]:
        """All stages with these parameters in their paths.

        Raises:
            SweepError: ``dvc.yaml`` names a parameter that is not there.
        """
        found = {}
        for name, described in self.described.items():
            try:
                deps, outs = stage_paths(described, settings)
            except (KeyError, TypeError, AttributeError) as error:
                raise SweepError(f"the stage {name} cannot be understood ({error})", where="dvc.yaml") from None
            sections = tuple(part for part in described.get("params", []) if isinstance(part, str))
            found[name] = Stage(sections, tuple(deps), tuple(outs))
        return found

    def experiments(self) -> dict[str, str]:
        """The commits of the experiments that start from here, by name."""
        lines = git(self.root, "for-each-ref", "--format=%(refname) %(objectname)", self.refs).splitlines()
        return dict(line.removeprefix(self.refs).rsplit(" ", 1) for line in lines)

    def done(self, runs: Sequence[Run]) -> tuple[set[str], list[str]]:
        """Which runs are experiments already, and which names are taken by experiments with other parameters."""
        have = self.experiments()
        same, other = set[str](), list[str]()
        for run in runs:
            if run.name in have:
                (same.add if self._params(have[run.name]) == run.params else other.append)(run.name)
        return same, other

    def _params(self, commit: str) -> dict[str, dict[str, Any]] | None:
        try:
            plain = documents.parse(git(self.root, "show", f"{commit}:{self.below}params.yaml"), "params.yaml")
            return {name: section.model_dump() for name, section in params_file.check(plain).items()}
        except (SweepError, LineageError, ParamsError, AttributeError, TypeError):
            return None  # an experiment of another time, whose parameters were others

    def check_inputs(self, runs: Sequence[Run], *, committed: bool) -> None:
        """See to it that the copies will have what the stages read.

        Args:
            runs: what will be run.
            committed: changes that are in no commit are left out on purpose.

        Raises:
            SweepError: code or data that experiments would not see, or would see as it was.
        """
        every = {
            stage: None for settings in _distinct(runs, self.described) for stage in self.stages(settings).values()
        }
        outs = {out for stage in every for out in stage.outs}
        inputs = dict.fromkeys(
            dep
            for stage in every
            for dep in stage.deps
            if not (_inside(dep, outs) or any(out.startswith(f"{dep}/") for out in outs))
        )
        tracked, data = self._tracked()
        lost = [
            path
            for path in inputs
            if not Path(path).is_absolute()
            and "://" not in path
            and not (_inside(path, data) or path in tracked or any(file.startswith(f"{path}/") for file in tracked))
        ]
        if lost:
            self._refuse_untracked(lost)
        changed = [] if committed else [path for path in self._changed() if self._matters(path, inputs)]
        if changed:
            raise SweepError(
                "\n  ".join(["these changes are in no commit, and experiments start from the last one:", *changed[:20]])
                + (f"\n  and {len(changed) - 20} more" if len(changed) > 20 else ""),
                where=self.project,
                todo="\nCommit them, or leave them out with --committed.",
            )

    def _refuse_untracked(self, lost: list[str]) -> None:
        there = [path for path in lost if (self.project / path).exists()]
        if not there:
            missing = ", ".join(lost)
            raise SweepError(
                f"{missing}: not there, and neither git nor DVC knows of it",
                where=self.project,
                todo="Put the data in its place, then `dvc add` and commit it.",
            )
        names = " ".join(there)
        raise SweepError(
            f"{', '.join(there)}: tracked by neither git nor DVC, and experiments see only what is",
            where=self.project,
            todo=f"Run `dvc add {names}`, `git add {' '.join(f'{path}.dvc' for path in there)}` and `git commit`.",
        )

    def _tracked(self) -> tuple[set[str], set[str]]:
        """The files in git, and the paths that ``.dvc`` files stand for, from the project's folder."""
        listed = git(self.root, "ls-tree", "-r", "-z", "--name-only", self.commit).split("\0")
        files = {path.removeprefix(self.below) for path in listed if path.startswith(self.below)}
        data = set()
        for path in sorted(path for path in files if path.endswith(".dvc")):
            try:
                found = documents.parse(git(self.root, "show", f"{self.commit}:{self.below}{path}"), path)
                places = [out["path"] for out in found["outs"]]
            except (LineageError, KeyError, TypeError):
                continue  # DVC itself will say what is wrong with it
            data |= {os.path.normpath(Path(path).parent / place) for place in places}
        return files, data

    def _changed(self) -> list[str]:
        """Paths of the project that are not as in the commit, new ones too, ignored ones not."""
        said = git(self.project, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", ".")
        return [line[3:].removeprefix(self.below) for line in said.split("\0") if line]

    @staticmethod
    def _matters(path: str, inputs: Mapping[str, Any]) -> bool:
        config = path in ("dvc.yaml", ".dvcignore", ".dvc/config") or path.endswith(".dvc")
        return config or _inside(path, inputs)


def stand_on(project: Path) -> Ground:
    """The project at its last commit.

    Raises:
        SweepError: it is in no git repository, or has no commit.
    """
    try:
        root = Path(git(project, "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
    except SweepError as error:
        if "not a git repository" not in error.what:
            raise
        raise SweepError(
            "is in no git repository, and DVC keeps experiments as commits", where=project, todo="Run `git init`."
        ) from None
    try:
        commit = git(project, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
    except SweepError:
        raise SweepError(
            "has no commit yet, and experiments start from one", where=root, todo="Run `git add` and `git commit`."
        ) from None
    return Ground(root, project.resolve(), commit)


def _distinct(runs: Sequence[Run], described: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The parameters of those runs that differ in what ``dvc.yaml`` names in its paths."""
    named = sorted(set(_templates(described)))
    seen = set()
    for run in runs:
        key = repr([_value(run.params, name) for name in named])
        if key not in seen:
            seen.add(key)
            yield run.params


def _templates(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        for part in value.split("${")[1:]:
            yield part.partition("}")[0]
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _templates(key)
            yield from _templates(item)
    elif isinstance(value, list):
        for item in value:
            yield from _templates(item)


def _value(values: Any, name: str) -> Any:
    for part in name.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _inside(path: str, folders: set[str] | Mapping[str, Any]) -> bool:
    """Whether a path is one of these, or below one."""
    parts = path.rstrip("/").split("/")
    return any("/".join(parts[:count]) in folders for count in range(1, len(parts) + 1))
