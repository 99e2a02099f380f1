"""A row's run made again by its recipe and the last commit's code, in a clone; its scores compared with the row's.

On the same kind of machine with the same inputs all scores are equal. Elsewhere a score may differ from the mean of the
row by :data:`DEVIATIONS` standard deviations over its seeds; with fewer than three seeds, within its own 95 % interval.
The clone is deleted afterwards, and DVC's cache and run-cache have no part in the run. Features come out of the store
where the store has them.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline import systems
from pipeline.lineage.files import Ignored, hash_listing, hash_path
from pipeline.pipelines import LEDGER, by_entry, parameter
from sightword.errors import LineageError, ParamsError
from sightword.messages import and_more
from study.origins import RAW, fetched_by, git, overridden, wholes
from study.rows import Row, Run, Score
from study.runs import METRICS, NOTE, read_scores

DEVIATIONS = 2.5
FEWEST = 3
"""Seeds from which a deviation is taken."""


class Difference(NamedTuple):
    """A score that differs, or that only the row has."""

    name: str
    row: float
    again: float | None
    """None where the run made again has no such score."""
    low: float | None
    """The least value that agrees; None where nothing is known of the score's spread."""
    high: float | None
    beyond: bool
    """Whether the difference is more than chance and machine explain."""


def compare(row: Row, run: Run, again: Mapping[str, Score], *, equal: bool) -> list[Difference]:
    """Return the scores of a run that differ when made again, those beyond their bounds first.

    Every difference counts where machine, packages and inputs are ``equal``.
    """
    found = []
    for name, score in run.scores.items():
        there = again.get(name)
        if there is None or there.value != score.value:
            low, high = (score.value, score.value) if equal else _bounds(row, run, name)
            beyond = there is None or (low is not None and high is not None and not low <= there.value <= high)
            found.append(Difference(name, score.value, None if there is None else there.value, low, high, beyond))
    return sorted(found, key=lambda one: (not one.beyond, one.name))


def _bounds(row: Row, run: Run, name: str) -> tuple[float | None, float | None]:
    score, values = run.scores[name], [one.scores[name].value for one in row.runs if name in one.scores]
    middle, spread = statistics.fmean(values), statistics.stdev(values) if len(values) >= FEWEST else 0.0
    if score.sd and len(run.seeds) >= FEWEST:
        middle, spread = score.value, score.sd
    if spread:
        return middle - DEVIATIONS * spread, middle + DEVIATIONS * spread
    return score.low, score.high


def find_run(row: Row, seed: int | None) -> Run:
    """Return the run of a seed, or the first one; ParamsError where the row has no such seed or no recipe."""
    run = next((one for one in row.runs if seed is None or seed in one.seeds), None)
    if run is None:
        raise ParamsError(f"has no run with the seed {seed}", where=row.key, expected=and_more(row.seeds, 20))
    if row.recipe is None:
        raise ParamsError("no recipe makes this row", where=row.key, todo=row.note)
    return run


def check_data(project: Path, row: Row, run: Run) -> list[str]:
    """Return a line for each input with another hash than the row's; LineageError where inputs are not here."""
    notes, lost, ignored = [], [], Ignored(project.resolve())
    for path, md5 in (dict.fromkeys(row.private, "") | run.inputs).items():
        if not (project / path).exists():
            name = fetched_by(path)
            whence = row.private.get(path) or (
                f"`sightword fetch {name}` brings it." if name else "Git does not have it."
            )
            lost.append(f"{path} (expected {md5 or 'any version'}, found none). {whence}")
        elif md5:
            hashed = hash_path((project / path).resolve(), ignored)
            files = {name: one for name, one in (hashed.files or {}).items() if not NOTE.fullmatch(name)}
            if md5 != (now := hash_listing(files) if hashed.files is not None else hashed.md5):
                notes.append(f"{path}: expected {md5}, found {now}")
    if lost:
        raise LineageError("\n  ".join(["its data is not at hand:", *lost]), where=row.key)
    return notes


def rerun(project: Path, row: Row, run: Run, seed: int | None = None) -> dict[str, Score]:
    """Make a run of a row again and return its scores; the output of DVC and the stages goes to standard error.

    The ledgers of the project get the scorings of the run that they lack.
    """
    assert row.recipe is not None
    if changed := git(project, "status", "--porcelain", "--", "sightword", "pipeline", "stages", ":(glob)**/dvc.yaml"):
        raise LineageError(f"these changes are in no commit:\n{changed}", where=project, todo="`git commit`")
    every = wholes(row.recipe, row.overrides, project)
    if name := systems.declared(every[0].pipeline, "SEED", None):
        several = isinstance(parameter(every[0].values, name), list)
        value = run.seeds if several else run.seeds[0] if seed is None else seed
        every[0] = overridden(row.recipe, {**row.overrides, name: value}, project)
    pipeline = every[0].pipeline
    scratch = project / ".dvc" / "tmp"
    scratch.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="remake-", dir=scratch) as folder:
        clone = Path(folder, "clone")
        git(project, "clone", "-q", "--shared", str(project), str(clone))
        _link(project / RAW, clone / RAW)
        for one in every:
            (clone / one.pipeline.params).write_text(json.dumps(one.values, indent=1), encoding="utf-8")
            if one.pipeline.folder:
                (clone / one.pipeline.ignore).unlink(missing_ok=True)
        environment = {**os.environ, "SIGHTWORD_SCRATCH": f"{folder}/scratch"}
        environment |= {"SIGHTWORD_THREADS": str(run.threads)} if run.threads else {}
        dvc = [sys.executable, "-m", "dvc"]

        def do(*arguments: str) -> int:
            return subprocess.run(
                [*dvc, *arguments], cwd=clone, env=environment, stdout=sys.stderr, check=False
            ).returncode

        do("config", "--local", "cache.dir", f"{folder}/cache")
        files = _metrics(clone, {name.split(".")[0] for name in run.scores})
        if not files:
            raise ParamsError(f"no stage of {pipeline.dvc_yaml} writes scores such as {min(run.scores)}", where=row.key)
        code = do("repro", "--force", "--no-run-cache", "--no-commit", *dict.fromkeys(files.values()))
        _keep_scorings(clone, project)
        if code:
            raise LineageError(f"the run failed (dvc repro: exit code {code})", where=pipeline.dvc_yaml)
        return {name: one for path in files for name, one in read_scores(path, (clone / path).read_bytes()).items()}


def _metrics(clone: Path, wanted: Collection[str]) -> dict[str, str]:
    """Return the addresses of the stages that write the wanted files of metrics, by the file."""
    return {
        path: address
        for address, described in by_entry(clone).items()
        for kind in ("outs", "metrics", "plots")
        for one in described.get(kind) or ()
        for path in ([one] if isinstance(one, str) else one)
        if path.endswith(".json") and path.removeprefix(f"{METRICS}/").removesuffix(".json") in wanted
    }


def _keep_scorings(clone: Path, project: Path) -> None:
    """Add the lines of the clone's ledgers to those of the project."""
    for path in (clone / METRICS).rglob(Path(LEDGER).name):
        ledger = project / path.relative_to(clone)
        before = ledger.read_text("utf-8").splitlines() if ledger.is_file() else []
        now = path.read_text("utf-8").splitlines()
        if {*now} - {*before}:
            lines = [*now[:1], *sorted({*before[1:], *now[1:]})]
            ledger.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _link(source: Path, target: Path) -> None:
    """Put raw data into a clone that lacks it, as further names of the same files where the disk can."""

    def put(file: str, name: str) -> None:
        if not Path(name).exists():
            try:
                os.link(os.path.realpath(file), name)
            except OSError:  # another disk
                shutil.copy2(file, name)

    shutil.copytree(source, target, copy_function=put, dirs_exist_ok=True)
