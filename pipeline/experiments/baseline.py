"""The baseline of a sweep: the commit in whose clones experiments run, and the files that they will not see there."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pipeline import systems
from pipeline.experiments import plan
from pipeline.experiments.plan import Trial
from pipeline.lineage import documents, repository
from pipeline.lineage.facts import params_files, stage_paths
from pipeline.pipelines import DVC_YAML, IGNORE, LEDGER, Pipeline, expanded, pipelines, stage_of
from sightword.errors import LineageError, ParamsError, SweepError
from sightword.messages import and_more, flat

SHOWN = 20
"""Changed files that a message names."""

git = partial(repository.git, errors="surrogateescape")
"""Run a git command and return its output, whose paths may have any bytes; errors are those of lineage's git."""


@dataclass(frozen=True)
class Stage:
    """A stage of ``dvc.yaml`` with some parameters."""

    sections: tuple[str, ...]
    deps: tuple[str, ...]
    outs: tuple[str, ...]

    def feeds(self, other: Stage) -> bool:
        """Return whether this stage writes what another one reads."""
        return any(_overlaps(dep, self.outs) for dep in other.deps)


@dataclass(frozen=True)
class Baseline:
    """A project at one commit."""

    root: Path
    """The folder of git's working tree."""
    project: Path
    """The project's folder: the root, or a folder below."""
    commit: str
    folder: str = ""
    """The folder of the pipeline that is run; empty for the project's own."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that is run."""
        return Pipeline(self.project, self.folder)

    @cached_property
    def below(self) -> str:
        """The path from the root to the project: empty, or with a slash at its end."""
        path = self.project.relative_to(self.root).as_posix()
        return "" if path == "." else f"{path}/"

    @property
    def refs(self) -> str:
        """The prefix of the git references of experiments from this commit."""
        return f"refs/exps/{self.commit[:2]}/{self.commit[2:]}/"

    def targets(self, stages: Sequence[str]) -> list[str]:
        """Return the arguments by which DVC runs some stages, given by address; without any, the pipeline."""
        return list(stages) or ([self.pipeline.dvc_yaml] if self.folder else [])

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """The stages of the pipeline's ``dvc.yaml`` at the commit; SweepError where it cannot be read."""
        try:
            return dict(self._read(self.commit, self.pipeline.dvc_yaml)["stages"])
        except (LineageError, KeyError, TypeError, ValueError) as error:
            raise SweepError(f"describes no stages ({error})", where=self.pipeline.dvc_yaml) from None

    def _read(self, commit: str, path: str) -> Any:
        return documents.parse(git(self.root, "show", f"{commit}:{self.below}{path}"), path)

    def stages(self, settings: Mapping[str, Any]) -> dict[str, Stage]:
        """Return all stages by address, with these parameters in their paths; SweepError for an unknown parameter."""
        found = {}
        for name, described in expanded(self.described, settings, self.pipeline.dvc_yaml).items():
            try:
                deps, outs = stage_paths(described, settings)
            except (KeyError, TypeError, AttributeError) as error:
                what = f"the stage {name} cannot be understood ({error})"
                raise SweepError(what, where=self.pipeline.dvc_yaml) from None
            sections = tuple(key for keys in params_files(described, self.pipeline).values() for key in keys)
            found[self.pipeline.address(name)] = Stage(sections, tuple(deps), tuple(outs))
        return found

    def done(self, runs: Sequence[Trial]) -> tuple[set[str], list[str]]:
        """Return the names of runs that are experiments already, and of experiments with other parameters."""
        lines = git(self.root, "for-each-ref", "--format=%(refname) %(objectname)", self.refs).splitlines()
        have = dict(line.removeprefix(self.refs).rsplit(" ", 1) for line in lines)
        there = [run for run in runs if run.name in have]
        same = set()
        for run in there:
            # an experiment of an earlier version may have other parameters
            with contextlib.suppress(LineageError, ParamsError, AttributeError, TypeError):
                if plan.sections(self._read(have[run.name], self.pipeline.params)) == run.params:
                    same.add(run.name)
        return same, [run.name for run in there if run.name not in same]

    def check_inputs(self, runs: Sequence[Trial], *, committed: bool) -> None:
        """Check that the clones will have what the stages read, and no old version unless ``committed`` allows it.

        Raises:
            SweepError: experiments would not see some code or data, or would see an old version.
        """
        inputs, tracked = self.inputs(runs), self._tracked()
        self._check_tracked(inputs, tracked)
        named = {path: key for run in runs for key, path in systems.encoders(self.pipeline, run.params)}
        self._check_encoders(named, tracked)
        if not committed:
            self.check_committed(inputs, todo="Commit them, or leave them out with --committed.")

    def inputs(self, runs: Sequence[Trial]) -> list[str]:
        """Return what the stages of some runs, and those that feed them, read and no stage writes."""
        named = sorted(set(re.findall(r"\$\{([^}]+)\}", str(self.described))))
        values = [flat(run.params) for run in runs]
        distinct = {repr([own.get(name) for name in named]): run.params for own, run in zip(values, runs, strict=True)}
        stages = [stage for settings in distinct.values() for stage in self.stages(settings).values()]
        others = list(self._others().values())
        outs = {out for stage in (*stages, *others) for out in stage.outs}
        while feeding := [one for one in others if one not in stages and any(map(one.feeds, stages))]:
            stages += feeding
        deps = dict.fromkeys(dep for stage in stages for dep in stage.deps)
        return [dep for dep in deps if not _overlaps(dep, outs)]

    def _check_tracked(self, inputs: Sequence[str], tracked: Collection[str]) -> None:
        """Check that git or DVC has all inputs, and that DVC sees the pipeline; SweepError otherwise."""
        if self.folder and self.pipeline.ignore in tracked:
            what, todo = "hides the pipeline from DVC", f"`git rm {self.pipeline.ignore}`, and commit."
            raise SweepError(what, where=self.pipeline.ignore, todo=todo)
        own = [path for path in inputs if not Path(path).is_absolute() and "://" not in path]
        if lost := [path for path in own if not _overlaps(path, tracked)]:
            there = [path for path in lost if (self.project / path).exists()]
            what = "tracked by neither git nor DVC, and experiments see only tracked files"
            add = f"`dvc add {' '.join(there)}`, `git add {' '.join(f'{path}.dvc' for path in there)}`"
            raise SweepError(
                f"{', '.join(there or lost)}: {what if there else 'not there, and neither git nor DVC tracks it'}",
                where=self.project,
                todo=f"Run {add} and `git commit`." if there else "Put the data in its place, `dvc add` and commit it.",
            )

    def check_committed(self, inputs: Collection[str], *, todo: str = "Commit them.") -> None:
        """Check that no change of an input waits for a commit, but for new scorings; SweepError otherwise."""
        status = git(self.project, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", ".")
        paths = [line[3:].removeprefix(self.below) for line in status.split("\0") if line]
        if changed := [path for path in paths if Path(path).name != LEDGER and _matters(path, inputs)]:
            raise SweepError(
                "these changes are in no commit, and the run starts from the last one:\n  "
                + and_more(changed, SHOWN, between="\n  "),
                where=self.project,
                todo=f"\n{todo}",
            )

    def _check_encoders(self, keys: Mapping[str, str], tracked: Collection[str]) -> None:
        """Check that the clones will have the encoders of some paths, each of a parameter; SweepError otherwise."""
        for path, key in sorted(keys.items()):
            place = self.project / path
            if place.is_dir() and not (place / "encoder.json").is_file():
                raise SweepError(f"is no folder of an encoder ({key})", where=path)
            if not _overlaps(path, tracked):
                what = "tracked by neither git nor DVC" if place.is_dir() else "does not exist"
                copy = "" if place.is_dir() else "Copy models/encoder of the other training run there. "
                todo = f"{copy}Run `dvc add {path}`, and commit."
                raise SweepError(f"{what} ({key})", where=path, todo=todo)

    def executed(self, stages: Sequence[str], settings: Mapping[str, Any]) -> set[str]:
        """Return the stages that an experiment may run, of all pipelines: the given ones, and those that feed them.

        Args:
            stages: addresses of stages of the pipeline; none means all.
            settings: the parameters of the experiment.

        Raises:
            SweepError: a stage cannot be understood.
        """
        own = self.stages(settings)
        found = {name: one for name, one in own.items() if not stages or {name, stage_of(name)} & {*stages}}
        known = self._others() | own
        while feeding := {name for name in known.keys() - found if any(map(known[name].feeds, found.values()))}:
            found |= {name: known[name] for name in feeding}
        return set(found)

    def _others(self) -> dict[str, Stage]:
        """The stages of the project's other pipelines, whose parameters are those of the commit."""
        found: dict[str, Stage] = {}
        for one in pipelines(self.project):
            with contextlib.suppress(LineageError, SweepError):  # not in the commit
                if one.folder != self.folder:
                    stages = replace(self, folder=one.folder).stages(self._read(self.commit, one.params))
                    found |= {name: replace(stage, deps=(*stage.deps, one.params)) for name, stage in stages.items()}
        return found

    def _tracked(self) -> set[str]:
        """Return the files in git, and the paths tracked by ``.dvc`` files, from the project's folder."""
        listed = git(self.root, "ls-tree", "-r", "-z", "--name-only", self.commit).split("\0")
        found = {path.removeprefix(self.below) for path in listed if path.startswith(self.below)}
        for path in [path for path in found if path.endswith(".dvc")]:
            with contextlib.suppress(LineageError, KeyError, TypeError):  # DVC itself reports a damaged file
                outs = self._read(self.commit, path)["outs"]
                found |= {os.path.normpath(Path(path).parent / out["path"]) for out in outs}
        return found


def find_baseline(project: Path, folder: str = "") -> Baseline:
    """Return the project at its last commit, for the pipeline of a folder; SweepError without repository or commit."""
    try:
        root = Path(git(project, "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
        commit = git(project, "rev-parse", "--verify", "HEAD^{commit}").strip()
    except LineageError as error:
        if not re.search("not a git repository|single revision", error.what):
            raise
        what = f"has no commit that experiments could start from ({error.what})"
        raise SweepError(what, where=project, todo="Run `git init`, if not done, `git add` and `git commit`.") from None
    return Baseline(root, project.resolve(), commit, folder)


def _matters(path: str, inputs: Collection[str]) -> bool:
    config = path in (IGNORE, ".dvc/config") or Path(path).name == DVC_YAML or path.endswith(".dvc")
    return config or _is_inside(path, inputs)


def _is_inside(path: str, folders: Collection[str]) -> bool:
    """Return whether a path is one of the folders, or below one."""
    parts = path.rstrip("/").split("/")
    return any("/".join(parts[:count]) in folders for count in range(1, len(parts) + 1))


def _overlaps(path: str, paths: Collection[str]) -> bool:
    """Return whether a path is one of the paths, or above or below one."""
    return _is_inside(path, paths) or any(one.startswith(f"{path}/") for one in paths)
