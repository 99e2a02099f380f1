"""What a sweep starts from: the last commit, whose experiments see neither uncommitted files nor untracked data.

DVC's queue takes uncommitted edits into all experiments without a word, so the check of them is here.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipeline import systems
from pipeline.experiments.grid import SHOWN, Trial, sections
from pipeline.lineage import repository
from pipeline.lineage.facts import stage_paths
from pipeline.lineage.lock import overlaps, within
from pipeline.pipelines import DVC_YAML, IGNORE, LEDGER, Pipeline, expanded, pipelines
from sightword.errors import FileFormatError, LineageError, ParamsError, SweepError
from sightword.io import yaml_reader
from sightword.messages import and_more

git = partial(repository.git, errors="surrogateescape")
"""Run a git command and return its output, whose paths may have any bytes; errors are those of lineage's git."""
Stages = list[tuple[tuple[str, ...], tuple[str, ...]]]
"""The dependencies and the outputs of each of some stages."""


@dataclass(frozen=True)
class Baseline:
    """A project at one commit."""

    project: Path
    """The project's folder: git's working tree, or a folder below."""
    below: str
    """The path from the working tree to the project: empty, or with a slash at its end."""
    commit: str
    pipeline: Pipeline
    """The pipeline that is run."""

    @property
    def refs(self) -> str:
        """The prefix of the git references of experiments from this commit."""
        return f"refs/exps/{self.commit[:2]}/{self.commit[2:]}/"

    def done(self, runs: Sequence[Trial]) -> tuple[set[str], list[str]]:
        """Return the names of runs that are experiments already, and of experiments with other parameters."""
        lines = git(self.project, "for-each-ref", "--format=%(refname) %(objectname)", self.refs).splitlines()
        have = dict(line.removeprefix(self.refs).rsplit(" ", 1) for line in lines)
        there = [run for run in runs if run.name in have]
        same = set()
        for run in there:
            # an experiment of an earlier version may have other parameters
            with contextlib.suppress(LineageError, FileFormatError, ParamsError, AttributeError, TypeError):
                if sections(self._read(have[run.name], self.pipeline.params)) == run.params:
                    same.add(run.name)
        return same, [run.name for run in there if run.name not in same]

    def _read(self, commit: str, path: str) -> Any:
        return yaml_reader.parse(git(self.project, "show", f"{commit}:{self.below}{path}"), path)

    def check(self, runs: Sequence[Trial]) -> None:
        """Check that experiments will have what the stages read, and the last commit's version of it.

        Raises:
            SweepError: experiments would not see some code or data, or would see an uncommitted version.
        """
        inputs, tracked = self._inputs(runs), self._tracked()
        if self.pipeline.folder and self.pipeline.ignore in tracked:
            what, todo = "hides the pipeline from DVC", f"`git rm {self.pipeline.ignore}`, and commit."
            raise SweepError(what, where=self.pipeline.ignore, todo=todo)
        self._check_tracked(inputs, tracked)
        keys = {path: key for run in runs for key, path in systems.encoders(self.pipeline, run.params)}
        for path, key in sorted(keys.items()):
            self._check_encoder(path, key, tracked)
        self._check_committed(inputs)

    def _inputs(self, runs: Sequence[Trial]) -> list[str]:
        """Return what the stages of some runs, and those that feed them, read and no stage writes."""
        stages = list(dict.fromkeys(stage for run in runs for stage in self._stages(self.pipeline, run.params)))
        others: Stages = []
        for pipeline in pipelines(self.project):
            with contextlib.suppress(LineageError, FileFormatError, SweepError):  # not in the commit
                if pipeline.folder != self.pipeline.folder:
                    settings = self._read(self.commit, pipeline.params)
                    others += [((*deps, pipeline.params), outs) for deps, outs in self._stages(pipeline, settings)]
        written = [out for _, outs in (*stages, *others) for out in outs]
        while feeding := [
            other for other in others if other not in stages
            and any(overlaps(dep, other[1]) for deps, _ in stages for dep in deps)
        ]:  # fmt: skip
            stages += feeding
        return [dep for dep in dict.fromkeys(dep for deps, _ in stages for dep in deps) if not overlaps(dep, written)]

    def _stages(self, pipeline: Pipeline, settings: Mapping[str, Any]) -> Stages:
        where = pipeline.dvc_yaml
        try:
            described = expanded(self._read(self.commit, where)["stages"], settings, where)
            paths = [stage_paths(stage, settings) for stage in described.values()]
            return [(tuple(deps), tuple(outs)) for deps, outs in paths]
        except (LineageError, FileFormatError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise SweepError(f"describes no stages that can be understood ({error})", where=where) from None

    def _check_tracked(self, inputs: Sequence[str], tracked: Collection[str]) -> None:
        """Check that git or DVC has all inputs; SweepError otherwise."""
        inside = [path for path in inputs if not Path(path).is_absolute() and "://" not in path]
        if lost := [path for path in inside if not overlaps(path, tracked)]:
            there = [path for path in lost if (self.project / path).exists()]
            what = "tracked by neither git nor DVC, and experiments see only tracked files"
            add = f"`dvc add {' '.join(there)}`, `git add {' '.join(f'{path}.dvc' for path in there)}`"
            raise SweepError(
                f"{', '.join(there or lost)}: {what if there else 'not there, and neither git nor DVC tracks it'}",
                where=self.project,
                todo=f"Run {add} and `git commit`." if there else "Put the data in its place, `dvc add` and commit it.",
            )

    def _check_encoder(self, path: str, key: str, tracked: Collection[str]) -> None:
        """Check that git or DVC has the encoder that a parameter names; SweepError otherwise."""
        there = (self.project / path).is_dir()
        if there and not (self.project / path / "encoder.json").is_file():
            raise SweepError(f"is no folder of an encoder ({key})", where=path)
        if not overlaps(path, tracked):
            copy = "" if there else "Copy models/encoder of the other training run there. "
            what = "tracked by neither git nor DVC" if there else "does not exist"
            raise SweepError(f"{what} ({key})", where=path, todo=f"{copy}Run `dvc add {path}`, and commit.")

    def _check_committed(self, inputs: Collection[str]) -> None:
        """Check that no change of an input waits for a commit, but for new scorings; SweepError otherwise."""
        status = git(self.project, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", ".")
        paths = [line[3:].removeprefix(self.below) for line in status.split("\0") if line]
        if changed := [path for path in paths if Path(path).name != LEDGER and _matters(path, inputs)]:
            names = and_more(changed, SHOWN, between="\n  ")
            what = f"these changes are in no commit, and experiments start from the last one:\n  {names}"
            raise SweepError(what, where=self.project, todo="\nCommit them.")

    def _tracked(self) -> set[str]:
        """Return the files in git, and the paths tracked by ``.dvc`` files, from the project's folder."""
        paths = git(self.project, "ls-tree", "-r", "-z", "--name-only", self.commit).split("\0")
        tracked = set(filter(None, paths))
        for path in [path for path in tracked if path.endswith(".dvc")]:
            # DVC itself reports a damaged file.
            with contextlib.suppress(LineageError, FileFormatError, KeyError, TypeError):
                outs = self._read(self.commit, path)["outs"]
                tracked |= {os.path.normpath(Path(path).parent / out["path"]) for out in outs}
        return tracked


def find_baseline(pipeline: Pipeline) -> Baseline:
    """Return the project of a pipeline at its last commit; SweepError without repository or commit."""
    project = pipeline.project.resolve()
    try:
        below = git(project, "rev-parse", "--show-prefix").rstrip("\n")
        commit = git(project, "rev-parse", "--verify", "HEAD^{commit}").strip()
    except LineageError as error:
        if not re.search("not a git repository|single revision", error.what):
            raise
        what = f"has no commit that experiments could start from ({error.what})"
        raise SweepError(what, where=project, todo="Run `git init`, if not done, `git add` and `git commit`.") from None
    return Baseline(project, below, commit, Pipeline(project, pipeline.folder))


def _matters(path: str, inputs: Collection[str]) -> bool:
    config = path in (IGNORE, ".dvc/config") or Path(path).name == DVC_YAML or path.endswith(".dvc")
    return config or any(within(path, one) for one in inputs)
