"""Experiments, and groups of those that differ only by the seed.

The input is the output of ``dvc exp show --json``, and the metrics files that git has of each experiment.
"""

from __future__ import annotations

import contextlib
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import systems
from pipeline.lineage.evidence import Evidence, KnownFacts, in_words, known_facts
from pipeline.lineage.lock import Lock, is_code, within
from pipeline.lineage.repository import Commit, Repository
from pipeline.pipelines import Pipeline, folder_of, full_name, project_of
from sightword.errors import FileFormatError, LineageError, ParamsError
from sightword.io.files import loads
from sightword.messages import and_more, flat, quote
from sightword.report.number_formats import is_number

INPUTS = "inputs"
"""The column that numbers kinds of code and data."""
ASIDE = ("report", "epochs")
"""Sections of parameters that change no metric of a summary."""
METRICS = "metrics"
"""The folder of metrics files."""
SHOWN = 20
"""Names of metrics that a message lists."""


@dataclass(frozen=True)
class Experiment:
    """One finished experiment."""

    name: str
    params: dict[str, Any]
    """The parameters by their full names, such as ``train.hidden`` or ``hypernyms/params.yaml:train.margin``."""
    metrics: dict[str, dict[str, float]]
    """The numbers of each metrics file, by their full names."""
    inputs: tuple[tuple[str, str], ...]
    """Paths and hashes of code and data that no stage wrote."""
    foreign: dict[str, str]
    """Metrics files that other parameters made, or that disagree with the records of runs, each with the reason."""


class Listing(NamedTuple):
    """The experiments of a listing, and the names of experiments without results, each with the reason."""

    experiments: list[Experiment]
    left_out: list[str]


@dataclass(frozen=True)
class Group:
    """Experiments that differ only by the seed."""

    names: list[str]
    """The names, one for each run, in order of the seed; ``a=b`` if a and b are the same run."""
    varied: dict[str, Any]
    """The parameters that differ between groups; ``inputs`` if there are several kinds of inputs."""
    metrics: dict[str, list[float]]
    """The values of each metric, one for each experiment that has the metric."""


def read(states: Any, project: Path | None = None) -> Listing:
    """Return the experiments of a parsed listing, with baselines, without the workspace; FileFormatError for others.

    DVC lists the metrics of ``dvc.yaml`` only; the other metrics files are read from git, if ``project`` is in a
    repository with the commits of the experiments.
    """
    records = known_facts(project) if project else None
    with contextlib.ExitStack() as stack:
        repository = None
        with contextlib.suppress(LineageError):
            repository = stack.enter_context(Repository(project)) if project else None
        return _listing(states, repository, records)


def _listing(states: Any, repository: Repository | None, records: KnownFacts | None) -> Listing:
    listing = Listing([], [])
    try:
        revisions = []
        for baseline in states:
            if baseline["rev"] != "workspace":
                revisions.append((baseline, "success"))
                for group in baseline["experiments"] or []:
                    revisions += [(one, (group["executor"] or {}).get("state", "success")) for one in group["revs"]]
        for revision, state in revisions:
            name, data = revision["name"] or revision["rev"][:7], revision.get("data")
            if state != "success":
                listing.left_out.append(f"{name} ({state})")
            elif revision["error"] or data is None:
                listing.left_out.append(f"{name} (cannot be read)")
            else:
                sha = str(revision["rev"])
                lock = repository.lock_or_none(Commit(sha)) if repository else None
                one = _experiment(name, data, _committed(repository, sha), lock, records)
                if any(one.metrics.values()):
                    listing.experiments.append(one)
                else:
                    listing.left_out.append(f"{name} (no metrics)")
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        what = f"is not a listing of experiments ({type(error).__name__}: {error})"
        todo = "Give the output of `dvc exp show --json`."
        raise FileFormatError(what, where="experiments", todo=todo) from None
    return listing


def _committed(repository: Repository | None, revision: str) -> dict[str, dict[str, Any]]:
    """Return the values of each metrics file of a commit; nothing of a commit that is not here."""
    committed = {}
    with contextlib.suppress(LineageError):
        for name in repository.files(revision, METRICS) if repository else ():
            text = repository.read(revision, f"{METRICS}/{name}") if repository and name.endswith(".json") else None
            with contextlib.suppress(ValueError, AttributeError):
                committed[f"{METRICS}/{name}"] = flat(loads(text or b"{}"))
    return committed


def _experiment(
    name: str,
    data: Mapping[str, Any],
    committed: Mapping[str, Mapping[str, Any]],
    lock: Lock | None,
    records: KnownFacts | None,
) -> Experiment:
    values = {**committed, **{path: flat(file.get("data") or {}) for path, file in data["metrics"].items()}}
    metrics = {path: {key: one for key, one in many.items() if is_number(one)} for path, many in values.items()}
    params: dict[str, Any] = {}
    for path, file in data["params"].items():
        params |= {full_name(path, key): value for key, value in flat(file.get("data") or {}).items()}
    made = [*data["outs"], METRICS]
    inputs = [
        (path, str(dep["hash"]))
        for path, dep in data["deps"].items()
        if not any(within(path, out) or within(out, path) for out in made)
    ]
    return Experiment(name, params, metrics, tuple(sorted(inputs)), foreign(metrics, data["params"], lock, records))


def foreign(
    paths: Iterable[str], params: Mapping[str, Any], lock: Lock | None, records: KnownFacts | None
) -> dict[str, str]:
    """Return metrics files whose stages, or the stages before those, did not run with these parameters, with reasons.

    A run of other code with the same outputs is no reason: it has the same parameters.
    """
    foreign_seeds: dict[str, str] = {}
    for path in paths:
        maker = lock.producer(path) if lock else None
        for entry in lock.chain(maker.name) if lock and maker else ():
            for file in entry.params:
                values = params.get(file, {}).get("data")
                for key, (then, now) in entry.changed_params(file, values).items() if values else ():
                    why = f"its metrics are not of its parameters: {key} is {now!r}, in dvc.lock {then!r}"
                    foreign_seeds.setdefault(path, why)
            one = records.weigh(entry) if records else Evidence("never seen to run")
            if one.doubted and not (one.differing and all(map(is_code, one.differing))):
                said = in_words(one.verdict, one.why)
                foreign_seeds.setdefault(path, f"{entry.name} does not agree with the records of runs: {said}")
    return foreign_seeds


def only(listing: Listing, pattern: str) -> Listing:
    """Return the experiments whose whole name matches a regular expression; ParamsError without a match."""
    wanted = compiled(pattern, "--only")
    chosen = [one for one in listing.experiments if wanted.fullmatch(one.name)]
    if not chosen:
        names = [one.name for one in listing.experiments]
        expected = f"one that matches one of {and_more(names, SHOWN)}" if names else None
        raise ParamsError("no experiment with results has such a name", where=pattern, expected=expected)
    return Listing(chosen, [text for text in listing.left_out if wanted.fullmatch(text.rpartition(" (")[0])])


def compiled(pattern: str, option: str) -> re.Pattern[str]:
    """Return the user's regular expression of an option; ParamsError for another text."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ParamsError(f"not a regular expression: {error}", where=f"{option} {quote(pattern)}") from None


def groups(experiments: Sequence[Experiment], metrics: Sequence[str] = ()) -> list[Group]:
    """Group experiments that differ only by the seed, in the order of the other parameters.

    The system whose parameters differ declares its seed, such as ``train.seed``.

    A run that appears twice (the same parameters, inputs and results, as a baseline and as an experiment) counts
    once. ``metrics`` are regular expressions that a metric's whole name matches, such as ``dev_r10`` or ``test.*r1``;
    without them all of the same pipeline's ``summary.json``.

    A run is left out if one of the metrics' files is of other parameters, as where params.yaml was committed without a
    run.

    Raises:
        ParamsError: no experiment has one of the metrics.
    """
    folders = _varied_folders(experiments)
    varied = [Pipeline(project_of(Path.cwd()), folder) for folder in folders]
    declared = [(one, systems.declared(one, "SEED", None)) for one in varied]
    seeds = [one.full_name(seed) for one, seed in declared if seed]
    wanted = _metrics(experiments, metrics, [f"metrics/{folder}/summary.json".replace("//", "/") for folder in folders])
    files = {file for file, _ in wanted.values()}
    experiments = [one for one in experiments if not one.foreign.keys() & files]
    together = _together(experiments, seeds)
    columns = [column for column, _ in together]
    keys = dict.fromkeys(key for column in columns for key in column)
    varying = [key for key in keys if len({repr(column.get(key)) for column in columns}) > 1]
    grouped = []
    for column, runs in together:
        firsts = [same[0] for same in runs]
        values = {
            shown: [one.metrics[file][name] for one in firsts if name in one.metrics.get(file, {})]
            for shown, (file, name) in wanted.items()
        }
        names = ["=".join(one.name for one in same) for same in runs]
        grouped.append(Group(names, {key: column.get(key) for key in varying}, values))
    return sorted(grouped, key=lambda group: [_order(value) for value in group.varied.values()])


def _together(
    experiments: Sequence[Experiment], seeds: Sequence[str]
) -> list[tuple[dict[str, Any], list[list[Experiment]]]]:
    """Return the parameters of each group, without the seeds, and its runs by seed; a run may have several names."""
    kinds = list(dict.fromkeys(one.inputs for one in experiments))
    together: dict[str, tuple[dict[str, Any], dict[str, list[Experiment]]]] = {}
    for one in sorted(experiments, key=lambda one: [_order(one.params.get(seed)) for seed in seeds]):
        column = {key: value for key, value in one.params.items() if key not in seeds}
        column |= {INPUTS: kinds.index(one.inputs) + 1} if len(kinds) > 1 else {}
        _, runs = together.setdefault(repr(sorted(column.items())), (column, {}))
        runs.setdefault(repr(([one.params.get(seed) for seed in seeds], one.metrics)), []).append(one)
    return [(column, list(runs.values())) for column, runs in together.values()]


def left_out(listing: Listing, in_groups: Sequence[Group]) -> list[str]:
    """Return the names of experiments that are in none of the groups, each with the reason."""
    shown = {name for group in in_groups for same in group.names for name in same.split("=")}
    foreign = [one for one in listing.experiments if one.name not in shown and one.foreign]
    return [f"{one.name} ({next(iter(one.foreign.values()))})" for one in foreign] + listing.left_out


def _varied_folders(experiments: Sequence[Experiment]) -> list[str]:
    """Return the folders of the pipelines whose parameters differ between experiments; where none do, the first's."""
    varied: dict[str, set[str]] = {}
    for one in experiments:
        for key, value in one.params.items():
            varied.setdefault(key, set()).add(repr(value))
    return sorted({folder_of(key) for key, values in varied.items() if len(values) > 1}) or [""]


def _metrics(
    experiments: Sequence[Experiment], patterns: Sequence[str], files: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return file and name of each metric to show, by the name of its column; without patterns, those of the files."""
    every = dict.fromkeys((path, key) for one in experiments for path, keys in one.metrics.items() for key in keys)
    chosen: dict[tuple[str, str], None] = {}
    for pattern in patterns or files:
        wanted = compiled(pattern, "--metric") if patterns else None
        named = [(path, key) for path, key in every if (wanted.fullmatch(key) if wanted else path == pattern)]
        if not named:
            names = sorted({key for _, key in every}, key=lambda key: (key.count("."), key))
            expected = f"one of {and_more(names, SHOWN)}"
            raise ParamsError("no experiment has such a metric", where=pattern, expected=expected)
        chosen |= dict.fromkeys(named)
    keys = [key for _, key in chosen]
    return {key if keys.count(key) == 1 else f"{path}:{key}": (path, key) for path, key in chosen}


def _order(value: Any) -> tuple[bool, float, str]:
    """Return a key that sorts numbers by size, then other values as text."""
    return (False, float(value), str(value)) if isinstance(value, int | float) else (True, 0.0, str(value))


def deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; None for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else None


def table(shown: Sequence[Group], *, exact: bool = False) -> list[list[str]]:
    """Return the header and one row for each group: varied parameters, number of runs, metrics, names.

    A metric is ``mean ± deviation``, rounded, with the number of runs that have the metric where not all do. Parameters
    of :data:`ASIDE` are left out. If ``exact``, nothing is left out, and mean and deviation are separate columns,
    with all digits.
    """
    varied = [name for name in shown[0].varied if exact or name.rpartition(":")[2].partition(".")[0] not in ASIDE]
    columns = [column for name in shown[0].metrics for column in ([name, f"{name}_sd"] if exact else [name])]
    last = [name.rpartition(".")[2] for name in varied]
    short = [one if last.count(one) == 1 and not exact else name for name, one in zip(varied, last, strict=True)]
    lines = [[*short, "runs", *columns, "experiments"]]
    for group in shown:
        cells = ["-" if group.varied[name] is None else str(group.varied[name]) for name in varied]
        line = [*cells, str(len(group.names))]
        for name, values in group.metrics.items():
            if exact:
                spread = deviation(values)
                line += [repr(statistics.fmean(values)) if values else "", "" if spread is None else repr(spread)]
            else:
                large = any(abs(value) >= 10 for other in shown for value in other.metrics[name])
                line.append(_rounded(values, len(group.names), 1 if large else 3) if values else "-")
        lines.append([*line, " ".join(group.names) if exact else and_more(group.names, 1)])
    return lines


def _rounded(values: Sequence[float], runs: int, digits: int) -> str:
    parts = [f"{one:.{digits}f}" for one in (statistics.fmean(values), deviation(values)) if one is not None]
    return " ± ".join(parts) + (f" ({len(values)})" if len(values) < runs else "")
