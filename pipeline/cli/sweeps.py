"""The command ``sweep``, which runs a grid of experiments."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pipeline.cli.command import Commands, add_command, add_layout, laid_out
from sightword.text import and_more

if TYPE_CHECKING:
    from pipeline.experiments.slots import Slot

MANY = 100
"""Number of experiments above which the command wants ``--yes``."""
SHOWN = 8
"""Names that a line lists."""

SWEEP = """\
Run a grid of experiments side by side, and print a table of them.

The grid file names parameters and their values (recipes/grid.yaml is one). Each
combination is one `dvc exp run`, kept as DVC keeps experiments, on a GPU of its
own, or on a share of the cores. They start from the last commit, in clones of
it: your files are left alone, and you can go on working. A failure does not
stop the rest. Run the command again after a stop or a kill: finished experiments
are not run again, and a half-done training run resumes."""


def add(commands: Commands) -> None:
    """Add ``sweep``."""
    sweep = add_command(commands, "sweep", SWEEP, _sweep)
    sweep.add_argument("grid", metavar="GRID", help="the grid file, such as recipes/grid.yaml")
    only = sweep.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="only list the experiments, and check that they can run")
    only.add_argument("--status", action="store_true", help="only list what is done, running, failed and to do")
    sweep.add_argument(
        "--slots", metavar="N", type=_count,
        help="experiments at a time (default: the visible GPUs; without one, half as many as there are cores)",
    )  # fmt: skip
    sweep.add_argument("--only", metavar="REGEX", type=_regex, help="only experiments whose name matches in some part")
    sweep.add_argument("--yes", action="store_true", help=f"run more than {MANY} experiments")
    sweep.add_argument("--committed", action="store_true", help="leave out uncommitted changes")
    sweep.add_argument("--replace", action="store_true", help="replace experiments of the same names, other parameters")
    sweep.add_argument(
        "--metric", metavar="REGEX", action="append", default=[], help="metrics of the table, as in `experiments`"
    )
    add_layout(sweep, csv="CSV with all digits, deviations in columns of their own")


def _sweep(arguments: argparse.Namespace) -> int:
    from pipeline.experiments import baseline, grid, jobs, plan, runner, slots, sweep
    from pipeline.experiments.clones import run_dvc
    from pipeline.experiments.progress import Progress, relative
    from pipeline.pipelines import find_project
    from sightword.errors import ParamsError, SweepError

    project = find_project(Path.cwd())
    wanted = grid.load(arguments.grid)
    base, source = sweep.base_params(wanted, project)
    every = plan.expand(wanted, base, arguments.grid)
    runs = [run for run in every if arguments.only is None or arguments.only.search(run.name)]
    if not runs:
        raise ParamsError(
            f"--only {arguments.only.pattern}: no experiment has such a name", where=arguments.grid,
            expected=f"part of a name such as {every[0].name}",
        )  # fmt: skip
    here = baseline.find_baseline(project, sweep.pipeline_of(wanted, project).folder)
    folder = project / ".dvc" / "tmp" / "sweeps" / wanted.name
    done, taken = here.done(runs)
    if arguments.status:
        states = sweep.states(folder, runs, done, taken)
        print(laid_out(arguments, sweep.run_table(runs, states)))
        counts = [f"{list(states.values()).count(state)} {state}" for state in dict.fromkeys(states.values())]
        process = runner.find_process(folder)
        at_work = "not at work" if process is None else f"at work (process {process})"
        _print(
            f"{wanted.name}, from commit {here.commit[:7]}: {', '.join(counts) or 'none begun'}; "
            f"{_experiments(len(runs))} in all; {at_work}"
        )
        if "failed" in states.values():
            _print(f"logs in {relative(folder / 'logs')}")
        return 0
    todo = [run for run in runs if run.name not in done]
    if arguments.dry_run:  # the list appears even if the inputs are not there yet
        states = dict.fromkeys(done, "done") | dict.fromkeys(taken, "other parameters")
        print(laid_out(arguments, sweep.run_table(runs, states)))
    here.check_inputs(runs, committed=arguments.committed)
    if taken and not arguments.replace:
        raise SweepError(
            f"experiments of these names have other parameters: {and_more(taken, SHOWN)}", where=arguments.grid,
            todo="Give the grid another `name`, remove them with `dvc exp remove`, or run with --replace.",
        )  # fmt: skip
    _print(f"{wanted.name}: {_experiments(len(runs))} from commit {here.commit[:7]}, parameters of {source}")
    if ignored := sweep.ignored_params(wanted, project, base):
        _print(f"params.yaml differs from it in {and_more(ignored, SHOWN)}, and is not used")
    if arguments.dry_run:
        _print(f"{len(done)} done, {len(todo)} to run")
        return 0
    failed: list[str] = []
    if todo:
        if len(todo) > MANY and not arguments.yes:
            raise SweepError(
                f"{len(todo):,} experiments are to be run", where=arguments.grid,
                todo="See them with --dry-run, choose some with --only, or run them all with --yes.",
            )  # fmt: skip
        places = slots.choose(arguments.slots, len(every))[: len(todo)]
        order = jobs.plan(todo, here, sweep=wanted.name, side_by_side=len(places) > 1)
        cache = run_dvc("cache", "dir", folder=project)
        logs = relative(folder / "logs")
        _print(f"{len(done)} done already, {len(todo)} to run, {_describe(places)}; logs in {logs}")
        try:
            with Progress(len(todo), len(places)) as progress, _signals_interrupt():
                work = runner.Sweep(folder, here, base, slots=places, report=progress.report, replace=arguments.replace)
                failed = [event.job.name for event in work.run(order, cache) if not event.job.stages]
        except KeyboardInterrupt:
            _print("stopped; nothing is left running. The same command resumes the sweep.")
            return 130
    try:
        table = sweep.result_table(here, {run.name for run in runs}, arguments.metric, exact=arguments.csv)
    except ParamsError as error:  # the experiments are kept, and failures must still be reported
        _print(f"no table: {error}")
    else:
        print(laid_out(arguments, table)) if table else _print("no experiment has results yet")
    if failed:
        _print(f"{len(failed)} failed: {and_more(failed, SHOWN)}. The same command tries them again.")
        return 1
    return 0


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Let requests to end act as Ctrl-C; a signal that is ignored, as by ``nohup``, stays ignored."""
    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) == signal.SIG_DFL]
    before = [(number, signal.signal(number, _interrupt)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _describe(places: Sequence[Slot]) -> str:
    threads = places[0].environment["SIGHTWORD_THREADS"]
    where = ", ".join(dict.fromkeys("the CPU" if one.place == "cpu" else one.place for one in places))
    return f"{len(places)} at a time on {where}, {threads} thread{'' if threads == '1' else 's'} each"


def _experiments(count: int) -> str:
    return f"{count:,} experiment{'' if count == 1 else 's'}"


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text} is not a regular expression: {error}") from None
