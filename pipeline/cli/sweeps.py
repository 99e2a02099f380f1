"""The command that runs a grid of experiments."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pipeline.cli.command import Commands, add_command, add_layout, laid_out

if TYPE_CHECKING:
    from pipeline.experiments.baseline import Ground
    from pipeline.experiments.grid import Grid
    from pipeline.experiments.plan import Run
    from pipeline.experiments.runner import Event

MANY = 100
"""Experiments to run that are asked about."""
DVC = [sys.executable, "-m", "dvc"]

SWEEP = """\
Run a grid of experiments side by side, and print a table of them.

The grid file names parameters and their values (recipes/grid.yaml is one). Each
combination is one `dvc exp run`, kept as DVC keeps experiments, on a GPU of its
own, or on a share of the cores. They start from the last commit, in copies of
it: your files are left alone, and you can go on working. What fails does not
stop the rest. Run it again after a stop or a kill: what is done is not done
again, a half-done training goes on where it was."""


def add(commands: Commands) -> None:
    """Add ``sweep``."""
    sweep = add_command(commands, "sweep", SWEEP, _sweep)
    sweep.add_argument("grid", metavar="GRID", help="the grid file, such as recipes/grid.yaml")
    only = sweep.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="only list what would be run, and check that it can be")
    only.add_argument("--status", action="store_true", help="only list what is done, running, failed and to do")
    sweep.add_argument(
        "--slots", metavar="N", type=_count,
        help="how many run at a time (default: the visible GPUs; without one, half as many as there are cores)",
    )  # fmt: skip
    sweep.add_argument("--only", metavar="REGEX", type=_regex, help="those experiments whose name has this")
    sweep.add_argument("--yes", action="store_true", help=f"run more than {MANY} without being asked")
    sweep.add_argument("--committed", action="store_true", help="leave out changes that are in no commit")
    sweep.add_argument("--replace", action="store_true", help="replace experiments of the same names, other parameters")
    sweep.add_argument(
        "--metric", metavar="REGEX", action="append", default=[], help="metrics of the table, as in `experiments`"
    )
    add_layout(sweep, csv="CSV with all digits, deviations in columns of their own")


def _sweep(arguments: argparse.Namespace) -> int:
    from pipeline.experiments import baseline, grid, jobs, plan, slots
    from pipeline.experiments.clones import run as dvc
    from pipeline.pipelines import find_project
    from sightword.errors import ParamsError, SweepError

    project = find_project(Path.cwd())
    wanted = grid.load(arguments.grid)
    base, source = _base(wanted, project)
    every = plan.expand(wanted, base, arguments.grid)
    runs = [run for run in every if arguments.only is None or arguments.only.search(run.name)]
    if not runs:
        raise ParamsError(
            f"--only {arguments.only.pattern}: no experiment has such a name", where=arguments.grid,
            expected=f"part of a name such as {every[0].name}",
        )  # fmt: skip
    here = baseline.stand_on(project)
    folder = project / ".dvc" / "tmp" / "sweeps" / wanted.name
    done, taken = here.done(runs)
    if arguments.status:
        return _status(arguments, wanted, here, folder, runs, done, taken)
    todo = [run for run in runs if run.name not in done]
    if arguments.dry_run:  # it lists them also where they could not be run yet, which is told below it
        _list(arguments, runs, dict.fromkeys(done, "done") | dict.fromkeys(taken, "other parameters"))
    here.check_inputs(runs, committed=arguments.committed)
    if taken and not arguments.replace:
        raise SweepError(
            f"experiments of these names have other parameters: {_few(taken)}", where=arguments.grid,
            todo="Give the grid another `name`, take them away with `dvc exp remove`, or run with --replace.",
        )  # fmt: skip
    _say(f"{wanted.name}: {_many(len(runs))} from commit {here.commit[:7]}, parameters of {source}")
    for line in _unused(wanted, project, base):
        _say(line)
    if arguments.dry_run:
        _say(f"{len(done)} done, {len(todo)} to run")
        return 0
    failures: list[Event] = []
    if todo:
        if len(todo) > MANY and not arguments.yes:
            raise SweepError(
                f"{len(todo):,} experiments are to be run", where=arguments.grid,
                todo="See them with --dry-run, choose some with --only, or run them all with --yes.",
            )  # fmt: skip
        places = slots.choose(arguments.slots, len(every))[: len(todo)]
        order = jobs.plan(todo, here, sweep=wanted.name, side_by_side=len(places) > 1)
        cache = dvc(DVC, "cache", "dir", folder=project)
        _say(f"{len(done)} done already, {len(todo)} to run, {_where(places)}; logs in {_near(folder / 'logs')}")
        interrupted, failures = _work(arguments, folder, here, base, places, order, cache)
        if interrupted:
            _say("stopped; nothing is left running. The same command goes on where this one was.")
            return 130
    _table(arguments, project, here, [run.name for run in runs])
    if failures:
        names = [event.job.name for event in failures if not event.job.stages]
        _say(f"{len(names)} failed: {_few(names)}. The same command tries them again.")
        return 1
    return 0


def _work(
    arguments: argparse.Namespace,
    folder: Path,
    here: Ground,
    base: str,
    places: Sequence[Any],
    order: Sequence[Any],
    cache: str,
) -> tuple[bool, list[Event]]:
    """Run the jobs; whether it was interrupted, and the failures."""
    from pipeline.experiments.runner import Sweep

    with _Progress(sum(not job.stages for job in order), len(places)) as progress:
        sweep = Sweep(folder, here, base, dvc=DVC, slots=places, tell=progress.tell, replace=arguments.replace)
        ours = [
            one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) == signal.SIG_DFL
        ]  # not `nohup`
        before = [(number, signal.signal(number, _interrupt)) for number in ours]
        try:
            return False, sweep.run(order, cache)
        except KeyboardInterrupt:
            return True, []
        finally:
            for number, handler in before:
                signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """A request to end is as Ctrl-C."""
    raise KeyboardInterrupt


class _Progress:
    """A bar on a terminal; a line for each event, there and elsewhere."""

    def __init__(self, total: int, slots: int) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=total, desc="sweep", unit="experiment", disable=None)
        self._total, self._slots, self._ended, self._failed, self._running = total, slots, 0, 0, 0
        self._seconds: list[float] = []

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def tell(self, event: Event) -> None:
        """Say what has happened."""
        name, place = event.job.name, f" ({event.slot.place})" if event.slot else ""
        what = f"{name} ({', '.join(event.job.stages)})" if event.job.stages else name
        self._running += {"started": 1, "done": -1, "again": -1}.get(event.kind, -1 if event.seconds else 0)
        if event.kind in ("done", "failed") and not event.job.stages:
            self._ended += 1
            self._failed += event.kind == "failed"
            self._bar.update()
            if event.kind == "done":
                self._seconds.append(event.seconds)
        if event.kind == "started":
            self._line(f"started  {what}{place}")
        elif event.kind == "again":
            self._line(f"waits    {what}: another process holds a lock")
        elif event.kind == "done":
            self._line(f"done     {what} in {_time(event.seconds)}{self._left()}")
        else:
            tail = "".join(f"\n    {line}" for line in event.tail)
            self._line(f"FAILED   {what} after {_time(event.seconds)}; all of it in {_near(event.log)}{tail}")
        self._bar.set_postfix(running=self._running, failed=self._failed)

    def _left(self) -> str:
        left = self._total - self._ended
        if not left or not self._seconds:
            return ""
        seconds = sum(self._seconds) / len(self._seconds) * left / min(self._slots, left)
        return f"; {self._ended} of {self._total}, about {_time(seconds)} left"

    def _line(self, line: str) -> None:
        self._bar.write(line, file=sys.stderr)
        sys.stderr.flush()


def _base(wanted: Grid, project: Path) -> tuple[str, str]:
    """The text of the parameters that all start from, and what to call it."""
    import os

    from pipeline.params import recipes
    from sightword.files import read_text

    if wanted.base is None:
        return read_text(project / "params.yaml", todo="Write one with `sightword recipe NAME`."), "params.yaml"
    own = os.sep in wanted.base or wanted.base.endswith((".yaml", ".yml"))
    recipe = recipes.find(str(project / wanted.base) if own else wanted.base, project)
    return read_text(recipe.path), f"the recipe {recipe.name}"


def _unused(wanted: Grid, project: Path, base: str) -> list[str]:
    """What to say of a ``params.yaml`` that is not what the experiments start from."""
    from pipeline.experiments.plan import leaves
    from pipeline.lineage import documents
    from sightword.errors import SightwordError
    from sightword.files import read_text

    if wanted.base is None:
        return []
    try:
        mine = dict(leaves(documents.parse(read_text(project / "params.yaml"), "params.yaml")))
    except (SightwordError, AttributeError):
        return []
    theirs = dict(leaves(documents.parse(base, "recipe")))
    other = [key for key in mine if mine[key] != theirs.get(key)]
    return [f"params.yaml differs from it in {_few(other)}, and is not used"] if other else []


def _status(
    arguments: argparse.Namespace,
    wanted: Grid,
    here: Ground,
    folder: Path,
    runs: Sequence[Run],
    done: set[str],
    taken: Sequence[str],
) -> int:
    from pipeline.experiments import runner
    from sightword.errors import FileFormatError
    from sightword.files import read_json

    try:
        told = read_json(folder / runner.STATE)
    except FileFormatError:
        told = {}
    process = runner.at_work(folder)
    states = {}
    for run in runs:
        last = told.get(run.name, {}).get("state", "")
        if run.name in done:
            states[run.name] = "done"
        elif last in ("started", "again") and process is not None:
            states[run.name] = "running"
        elif last in ("started", "again"):
            states[run.name] = "half done"
        elif last == "failed":
            states[run.name] = "failed"
        elif run.name in taken:
            states[run.name] = "other parameters"
    _list(arguments, runs, states)
    counts = {state: list(states.values()).count(state) for state in dict.fromkeys(states.values())}
    told_counts = ", ".join(f"{count} {state}" for state, count in counts.items()) or "none begun"
    at_work = f"at work (process {process})" if process is not None else "not at work"
    _say(f"{wanted.name}, from commit {here.commit[:7]}: {told_counts}; {_many(len(runs))} in all; {at_work}")
    if "failed" in counts:
        _say(f"logs in {_near(folder / 'logs')}")
    return 0


def _list(arguments: argparse.Namespace, runs: Sequence[Run], states: dict[str, str]) -> None:
    keys = list(dict.fromkeys(key for run in runs for key in run.values))
    lines = [["experiment", "state", *keys]]
    for run in runs:
        cells = [str(run.values[key]) if key in run.values else "-" for key in keys]
        lines.append([run.name, states.get(run.name, "to do"), *cells])
    print(laid_out(arguments, lines))


def _table(arguments: argparse.Namespace, project: Path, here: Ground, names: Sequence[str]) -> None:
    """The results of the sweep's experiments, seeds together."""
    import json

    from pipeline.experiments import results
    from pipeline.experiments.clones import run as dvc
    from sightword.errors import ParamsError

    said = dvc(DVC, "exp", "show", "--json", "--rev", here.commit, folder=project)
    wanted = set(names)
    found = [one for one in results.read(json.loads(said)).experiments if one.name in wanted]
    if not found:
        _say("no experiment has results yet")
        return
    try:
        groups = results.groups(found, arguments.metric)
    except ParamsError as error:
        _say(f"no table: {error}")  # the experiments are there, and what failed is still to be told
        return
    print(laid_out(arguments, results.table(groups, exact=arguments.csv)))


def _where(places: Sequence[Any]) -> str:
    threads = places[0].environment["SIGHTWORD_THREADS"]
    each = f"{threads} thread{'' if threads == '1' else 's'} each"
    if places[0].place == "cpu":
        return f"{len(places)} at a time on the CPU, {each}"
    return f"{len(places)} at a time on {', '.join(dict.fromkeys(place.place for place in places))}, {each}"


def _many(count: int) -> str:
    return f"{count:,} experiment{'' if count == 1 else 's'}"


def _few(names: Sequence[str], shown: int = 8) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _near(path: Path | None) -> str:
    """A path as it is typed from here."""
    if path is None:
        return "-"
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number of at least 1")
    return int(text)


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text} is no regular expression: {error}") from None
