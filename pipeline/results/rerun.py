"""A row's run made again: by the recipe and the code of the last commit, in a clone, on data that is at hand.

The clone is deleted afterwards, and neither DVC's cache nor its run-cache has a part in the run. Features come out of
the store where the store has them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pipeline import systems
from pipeline.experiments.baseline import Baseline, find_baseline
from pipeline.experiments.clones import DVC, Clone
from pipeline.experiments.plan import Trial
from pipeline.experiments.results import METRICS
from pipeline.experiments.runner import environment_of
from pipeline.experiments.slots import choose
from pipeline.lineage import scorings
from pipeline.lineage.evidence import RUNS, KnownFacts
from pipeline.lineage.facts import OUTS, listed
from pipeline.lineage.files import Workspace
from pipeline.lineage.lock import is_code, within
from pipeline.params.overlay import Whole
from pipeline.pipelines import expanded, parameter
from pipeline.results.origins import hash_of, whereabouts
from pipeline.results.recognition import further, overridden
from pipeline.results.records import Row, Run, Score
from pipeline.results.runs import machine_of, packages_of
from pipeline.results.scores import prefix, read_scores
from sightword.errors import LineageError, ParamsError
from sightword.messages import and_more


@dataclass(frozen=True)
class Prepared:
    """A run that can be made again."""

    run: Run
    """As the row has it."""
    baseline: Baseline
    texts: dict[str, str]
    """The text of each parameter file."""
    inputs: list[str]
    """The raw data of the run in the project."""
    notes: list[str]
    """A line for each input with another hash than the row's."""
    files: dict[str, str]
    """The stage of each file of metrics that the row has scores of."""


class Again(NamedTuple):
    """The scores of a run made again, and whether machine and packages were the row's."""

    scores: dict[str, Score]
    same_machine: bool


def prepare(project: Path, row: Row, seed: int | None = None) -> Prepared:
    """Check that a run of a row can be made again.

    Args:
        project: the project's folder.
        row: the row.
        seed: the seed of the run; None takes the first run, and of several seeds the first.

    Raises:
        ParamsError: the row has no such seed or no recipe, or its parameters or scores are of no stage of today.
        LineageError: data is not at hand; the message has each file, its hash, and how to have it.
        SweepError: code or data has changes that are in no commit.
    """
    run = next((one for one in row.runs if seed is None or seed in one.seeds), None)
    if run is None:
        raise ParamsError(f"has no run with the seed {seed}", where=row.key, expected=and_more(row.seeds, 20))
    if row.recipe is None:
        raise ParamsError("no recipe makes this row", where=row.key, todo=row.note)
    wholes = _wholes(row, row.recipe, run, seed, project)
    whole = wholes[0]
    baseline = find_baseline(project, whole.pipeline.folder)
    needed: set[str] = set()
    for one in wholes:
        params = {name: section.model_dump() for name, section in one.sections.items()}
        needed |= {*replace(baseline, folder=one.pipeline.folder).inputs([Trial(row.name, {}, {}, params)])}
    baseline.check_committed(needed)
    data = {path for path in needed if not is_code(path) and not within(path, METRICS)}
    notes = _check_data(project, row, dict.fromkeys(row.private, "") | (run.inputs or dict.fromkeys(sorted(data), "")))
    texts = {one.pipeline.params: json.dumps(one.values, indent=1) for one in wholes}
    inputs = sorted(path for path in {*data, *run.inputs} if (project / path).exists())
    return Prepared(run, baseline, texts, inputs, notes, _metrics(whole, row, run))


def _wholes(row: Row, recipe: str, run: Run, seed: int | None, project: Path) -> list[Whole]:
    """Return the parameters of a run, and those of the pipelines that it builds on."""
    whole = overridden(recipe, row.overrides, project)
    if name := systems.declared(whole.pipeline, "SEED", None):
        several = isinstance(parameter(whole.values, name), list)
        value = run.seeds if several else run.seeds[0] if seed is None else seed
        whole = overridden(recipe, {**row.overrides, name: value}, project)
    return [whole, *further(row.overrides, project)]


def _check_data(project: Path, row: Row, wanted: Mapping[str, str]) -> list[str]:
    """Return a line for each input with another hash; LineageError where inputs are not here."""
    here, notes, lost = Workspace(project), [], []
    for path, md5 in wanted.items():
        found = here.hashed(path)
        if found is None:
            whence = row.private.get(path) or whereabouts(path, project)
            lost.append(f"{path} (expected {md5 or 'any version'}, found none). {whence}")
        elif md5 not in ("", now := found.md5 if found.files is None else hash_of(found.files)):
            notes.append(f"{path}: expected {md5}, found {now}")
    if lost:
        what = "\n  ".join(["its data is not at hand:", *lost])
        raise LineageError(what, where=row.key)
    return notes


def _metrics(whole: Whole, row: Row, run: Run) -> dict[str, str]:
    """Return the stage of each file of metrics with scores of a run; ParamsError where no stage writes any."""
    pipeline, found = whole.pipeline, {}
    for name, described in expanded(pipeline.stages, whole.values, pipeline.dvc_yaml).items():
        for path, _ in listed(described, OUTS):
            if path.endswith(".json") and any(key.startswith(f"{prefix(path)}.") for key in run.scores):
                found[path] = pipeline.address(name)
    if not found:
        what = f"no stage of {pipeline.dvc_yaml} writes scores such as {min(run.scores)}"
        raise ParamsError(what, where=row.key)
    return found


def rerun(prepared: Prepared) -> Again:
    """Make a run again; the output of DVC and the stages goes to standard error.

    The ledgers of the project get the scorings of the run that they lack, also when the run fails later.

    Raises:
        LineageError: a stage fails.
        SetupError: the machine's settings are wrong.
    """
    baseline, run = prepared.baseline, prepared.run
    with _scratch(baseline.project / ".dvc" / "tmp") as folder:
        # A half-done training of the user's is not taken over.
        environment = environment_of(choose(1, 1)[0]) | {"SIGHTWORD_SCRATCH": os.fspath(folder / "scratch")}
        if run.threads:
            environment |= {"SIGHTWORD_THREADS": str(run.threads)}
        clone = Clone(folder / "clone", baseline, environment)
        clone.make(os.fspath(folder / "cache"))
        clone.begin(prepared.texts[baseline.pipeline.params], ())
        for file, text in prepared.texts.items():
            (clone.project / file).write_text(text, encoding="utf-8")
        if baseline.folder:
            (clone.project / baseline.pipeline.ignore).unlink(missing_ok=True)
        _link(prepared.inputs, baseline.project, clone.project)
        options = ("--force", "--no-run-cache", "--no-commit")
        command = [*DVC, "repro", *options, *dict.fromkeys(prepared.files.values())]
        done = subprocess.run(command, cwd=clone.project, env=environment, stdout=sys.stderr, check=False)  # noqa: S603 - DVC, with stages of this project
        facts = KnownFacts([clone.project / RUNS])
        scorings.keep(facts, baseline.project)
        if done.returncode:
            what = f"the run failed (dvc repro: exit code {done.returncode})"
            raise LineageError(what, where=baseline.pipeline.dvc_yaml)
        scores = read_scores({path: (clone.project / path).read_bytes() for path in prepared.files})
        machines = {(machine_of(one), packages_of(one)) for one in facts}
    return Again(scores, machines == {(run.processor, tuple(run.packages.items()))})


@contextlib.contextmanager
def _scratch(place: Path) -> Iterator[Path]:
    """Yield a new folder, which is deleted afterwards; folders that killed processes left are deleted first."""
    place.mkdir(parents=True, exist_ok=True)
    for left in place.glob("results-*"):
        with contextlib.suppress(OSError), _held(left):  # a process at work holds its own
            shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix="results-", dir=place) as folder, contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a file system without locks
            stack.enter_context(_held(Path(folder)))
        yield Path(folder)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; OSError where another process has the lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _link(paths: Iterable[str], project: Path, clone: Path) -> None:
    """Put raw data into a clone that does not have it, as further names of the same files where the disk can."""

    def put(source: str, target: str) -> None:
        if not Path(target).exists():
            try:
                os.link(os.path.realpath(source), target)
            except OSError:  # another disk
                shutil.copy2(source, target)

    for path in paths:
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        if (project / path).is_dir():
            shutil.copytree(project / path, clone / path, copy_function=put, dirs_exist_ok=True)
        else:
            put(os.fspath(project / path), os.fspath(clone / path))
