"""The command ``sweep``, which runs a grid of experiments."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.command import Commands, add_command, add_layout, laid_out
from pipeline.cli.project import print_groups
from sightword.messages import and_more, plural

if TYPE_CHECKING:
    from pipeline.experiments.runner import Event

MANY = 100
"""Number of experiments above which the command wants ``--yes``."""
SHOWN = 8
"""Names that a line lists."""

SWEEP = """\
Run a grid of experiments side by side, and print a table of them.

The grid file names parameters and their values, as recipes do. Each
combination is one `dvc exp run`, kept as DVC keeps experiments, on a GPU of its
own, or on a share of the cores. They start from the last commit, in clones of
it: your files are left alone, and you can go on working. A failure does not
stop the rest. Run the command again after a stop or a kill: finished experiments
are not run again, and a half-done training run resumes."""


def add(commands: Commands) -> None:
    """Add ``sweep``."""
    sweep = add_command(commands, "sweep", SWEEP, _sweep)
    sweep.add_argument("grid", metavar="GRID", help="a grid's name, such as grid-sample, or the path of a file")
    only = sweep.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="only list the experiments, and check that they can run")
    only.add_argument("--status", action="store_true", help="only list what is done, running, failed and to do")
    slots = "experiments at a time (default: the visible GPUs; without one, half as many as there are cores)"
    sweep.add_argument("--slots", metavar="N", type=_count, help=slots)
    sweep.add_argument("--only", metavar="REGEX", default="", help="only experiments whose name matches in some part")
    sweep.add_argument("--yes", action="store_true", help=f"run more than {MANY} experiments")
    sweep.add_argument("--committed", action="store_true", help="leave out uncommitted changes")
    sweep.add_argument("--replace", action="store_true", help="replace experiments of the same names, other parameters")
    metric = "metrics of the table, as in `experiments`"
    sweep.add_argument("--metric", metavar="REGEX", action="append", default=[], help=metric)
    add_layout(sweep, csv="CSV with all digits, deviations in columns of their own")


def _sweep(arguments: argparse.Namespace) -> int:
    from pipeline.experiments import baseline, grid, jobs, plan, results, runner, slots, sweep
    from pipeline.experiments.clones import run_dvc
    from pipeline.params import recipes
    from pipeline.pipelines import find_project
    from sightword.errors import ParamsError, SweepError

    project = find_project(Path.cwd())
    wanted = grid.load(recipes.find_grid(arguments.grid, project))
    base, source = sweep.base_params(wanted, project)
    every = plan.expand(wanted, base, arguments.grid)
    runs = [run for run in every if results.compiled(arguments.only, "--only").search(run.name)]
    if not runs:
        what = f"--only {arguments.only}: no experiment has such a name"
        raise ParamsError(what, where=arguments.grid, expected=f"part of a name such as {every[0].name}")
    here = baseline.find_baseline(project, sweep.pipeline_of(wanted, project).folder)
    folder = project / ".dvc" / "tmp" / "sweeps" / wanted.name
    done, taken = here.done(runs)
    many = plural(f"{len(runs):,}", "experiment")
    if arguments.status or arguments.dry_run:  # the list appears even if the inputs are not there yet
        states = sweep.states(folder, runs, done, taken)
        print(laid_out(arguments, sweep.run_table(runs, states)))
    if arguments.status:
        begun = ", ".join(f"{count} {state}" for state, count in Counter(states.values()).items()) or "none begun"
        process = runner.find_process(folder)
        at_work = "not at work" if process is None else f"at work (process {process})"
        _print(f"{wanted.name}, from commit {here.commit[:7]}: {begun}; {many} in all; {at_work}")
        if "failed" in states.values():
            _print(f"logs in {os.path.relpath(folder / 'logs')}")
        return 0
    here.check_inputs(runs, committed=arguments.committed)
    if taken and not arguments.replace:
        what = f"experiments of these names have other parameters: {and_more(taken, SHOWN)}"
        more = "Give the grid another `name`, remove them with `dvc exp remove`, or run with --replace."
        raise SweepError(what, where=arguments.grid, todo=more)
    _print(f"{wanted.name}: {many} from commit {here.commit[:7]}, parameters of {source}")
    todo = [run for run in runs if run.name not in done]
    if arguments.dry_run:
        _print(f"{len(done)} done, {len(todo)} to run")
        return 0
    failed: list[str] = []
    if len(todo) > MANY and not arguments.yes:
        more = "See them with --dry-run, choose some with --only, or run them all with --yes."
        raise SweepError(f"{len(todo):,} experiments are to be run", where=arguments.grid, todo=more)
    if todo:
        for number in (signal.SIGTERM, signal.SIGHUP):  # act as Ctrl-C; what `nohup` ignores stays ignored
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
        cache = run_dvc("cache", "dir", folder=project)
        try:
            places = slots.choose(arguments.slots, len(every))[: len(todo)]
            where = ", ".join(dict.fromkeys("the CPU" if one.place == "cpu" else one.place for one in places))
            order = jobs.plan(todo, here, sweep=wanted.name, side_by_side=len(places) > 1)
            _print(
                f"{len(done)} done already, {len(todo)} to run, {len(places)} at a time on {where}, threads each: "
                f"{places[0].environment['SIGHTWORD_THREADS']}; logs in {os.path.relpath(folder / 'logs')}"
            )
            progress = _Progress(len(todo), len(places))
            with contextlib.closing(progress.bar):
                work = runner.Sweep(folder, here, base, places, progress.report, replace=arguments.replace)
                failures = work.run(order, cache)
        except KeyboardInterrupt:
            _print("stopped; nothing is left running. The same command resumes the sweep.")
            return 130
        failed = [event.job.name for event in failures if not event.job.stages]
    try:
        found, left_out = sweep.outcome(here, {run.name for run in runs}, arguments.metric)
    except ParamsError as error:  # the experiments are kept, and failures must still be reported
        _print(f"no table: {error}")
    else:
        print_groups(arguments, found) if found else _print("no experiment has results yet")
        if left_out:
            _print(f"left out: {', '.join(left_out)}")
    if failed:
        _print(f"{len(failed)} failed: {and_more(failed, SHOWN)}. The same command tries them again.")
    return 1 if failed else 0


class _Progress:
    """A bar of experiments on a terminal, and a line for each event."""

    def __init__(self, total: int, slots: int) -> None:
        from tqdm import tqdm

        self.bar = tqdm(total=total, desc="sweep", unit="experiment", disable=None)
        self._total, self._slots, self._failed = total, slots, 0
        self._running: set[str] = set()
        self._seconds: list[float] = []

    def report(self, event: Event) -> None:
        """Print an event and update the bar."""
        job, took = event.job, self.bar.format_interval(event.seconds)
        name = f"{job.name} ({', '.join(job.stages)})" if job.stages else job.name
        self._running.discard(job.name)
        if event.kind in ("done", "failed") and not job.stages:
            self._failed += event.kind == "failed"
            self._seconds += [event.seconds] if event.kind == "done" else []
            self.bar.update()
        if event.kind == "started":
            self._running.add(job.name)
            line = f"started  {name}" + (f" ({event.slot.place})" if event.slot else "")
        elif event.kind == "again":
            line = f"waits    {name}: {event.tail[-1]}"
        elif event.kind == "done":
            line = f"done     {name} in {took}{self._left()}"
        else:
            log = os.path.relpath(event.log) if event.log else "-"
            line = "\n    ".join([f"FAILED   {name} after {took}; full log: {log}", *event.tail])
        self.bar.write(line, file=sys.stderr)
        sys.stderr.flush()
        self.bar.set_postfix(running=len(self._running), failed=self._failed)

    def _left(self) -> str:
        ended = len(self._seconds) + self._failed
        left = self._total - ended
        if not left or not self._seconds:
            return ""
        seconds = statistics.fmean(self._seconds) * left / min(self._slots, left)
        return f"; {ended} of {self._total}, about {self.bar.format_interval(seconds)} left"


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)
