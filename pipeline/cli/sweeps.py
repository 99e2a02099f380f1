"""The command ``sweep``, which runs a grid of experiments and shows their results."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.command import Commands, add_command, laid_out, refuse
from sightword.messages import and_more, plural

if TYPE_CHECKING:
    from pipeline.experiments.baseline import Baseline
    from pipeline.experiments.grid import Trial
    from pipeline.experiments.queue import Queue
    from pipeline.experiments.results import Group, Listing
    from pipeline.experiments.slots import Slots

POLL, SHARE, LONGEST = 2.0, 20, 30.0
"""Least seconds between two looks at the queue, how many times as long as a look the pause is (a look at hundreds of
experiments takes a fifth of a second), and its most seconds."""
LOST = 5
"""Successive looks after which an experiment that no worker has is taken for failed."""
SHOWN = 8
"""Names that a line lists, and lines of a log that are shown after a failure."""

SWEEP = """\
Run a grid of experiments side by side, and print a table of them.

The grid file names parameters and their values, as recipes do. Each combination is an
experiment of DVC's queue, from the last commit, on a whole GPU or on a share of the
cores. The queue goes on when this command ends: the same command follows it again, and
`dvc queue stop --kill` ends it. Finished experiments are not run again, failed ones are,
and a half-done training run resumes.

Without GRID, print a table of the experiments of the last commit. Experiments that differ by the seed only
are one row, with each metric as mean ± sample standard deviation; --csv has all columns.

    sightword sweep grid-sample --dry-run
    sightword sweep --only 'small-.*' --metric 'test\\..*r10'"""


def add(commands: Commands) -> None:
    """Add ``sweep``."""
    sweep = add_command(commands, "sweep", SWEEP, _sweep)
    sweep.add_argument("grid", metavar="GRID", nargs="?", help="a grid's name, such as grid-sample, or a file's path")
    only = "only list the experiments with their states, and check that they can run"
    sweep.add_argument("--dry-run", action="store_true", help=only)
    slots = "experiments at a time (default: one for each visible GPU; without a GPU, for every two cores and 4 GiB)"
    sweep.add_argument("--slots", metavar="N", type=_count, help=slots)
    sweep.add_argument("--only", metavar="REGEX", help="only experiments whose whole name matches")
    metric = "the metrics whose whole name matches, from any file; may be given again (default: the summary's)"
    sweep.add_argument("--metric", metavar="REGEX", action="append", default=[], help=metric)
    sweep.add_argument("--csv", action="store_true", help="CSV with all digits, and columns for deviations")


def _sweep(arguments: argparse.Namespace) -> int:
    from pipeline.experiments import baseline, grid, queue, results, slots
    from pipeline.params import recipes
    from pipeline.pipelines import find_project
    from sightword.errors import ParamsError, SweepError

    refuse(arguments, (arguments.grid is None and (arguments.dry_run or arguments.slots), "which GRID?"))
    project = find_project(Path.cwd())
    if arguments.grid is None:
        listing = _listing(project)
        _print_table(arguments, results.only(listing, arguments.only) if arguments.only else listing)
        return 0
    wanted = grid.load(recipes.find_grid(arguments.grid, project))
    pipeline, base, source = grid.base_params(wanted, project)
    every = grid.expand(wanted, base, arguments.grid)
    chosen = results.compiled(arguments.only or ".*", "--only")
    runs = [run for run in every if chosen.fullmatch(run.name)]
    if not runs:
        what = f"--only {arguments.only}: no experiment has such a name"
        raise ParamsError(what, where=arguments.grid, expected=f"a name such as {every[0].name}")
    here = baseline.find_baseline(pipeline)
    done, taken = here.done(runs)
    _print(f"{wanted.name}: {plural(len(runs), 'experiment')} from commit {here.commit[:7]}, parameters of {source}")
    with queue.opened(here) as opened:
        states = opened.states() | dict.fromkeys(done, "done") | dict.fromkeys(taken, "other parameters")
        if arguments.dry_run:
            print(laid_out(arguments, _run_table(runs, states)))
        here.check(runs)
        opened.check()
        if taken:
            what = f"experiments of these names have other parameters: {and_more(taken, SHOWN)}"
            todo = "Give the grid another `name`, or remove them with `dvc exp remove`."
            raise SweepError(what, where=arguments.grid, todo=todo)
        if arguments.dry_run:
            return 0
        new = [run for run in runs if run.name not in done]
        _print(f"{len(done)} done already")
        places = slots.choose(arguments.slots, len(every))
        failed = _run(new, here, opened, states, places, shared=not done) if new else []
        if failed is None:
            return 130
    names = "|".join(re.escape(run.name) for run in runs)
    try:
        _print_table(arguments, results.only(_listing(project, here.commit), names))
    except ParamsError as error:  # the experiments are kept, and failures must still be reported
        _print(f"no table: {error}")
    if failed:
        _print(f"{len(failed)} failed: {and_more(failed, SHOWN)}. The same command tries them again.")
    return 1 if failed else 0


def _run(
    runs: Sequence[Trial], here: Baseline, queue: Queue, states: dict[str, str], slots: Slots, *, shared: bool
) -> list[str] | None:
    """Queue experiments, and follow them; return the names of failures, or None where the user stops to follow.

    With ``shared`` the first experiment runs alone, and so runs the stages that experiments share.
    """
    queue.forget({run.name: states[run.name] for run in runs if states.get(run.name) in ("failed", "dead")})
    for run in runs:
        if states.get(run.name) not in ("queued", "running"):
            queue.put(run)
    threads = slots.environment["SIGHTWORD_THREADS"]
    first = "the first alone, then " * (shared and slots.count > 1)
    _print(f"{len(runs)} to run, {first}{slots.count} at a time on {slots.place}, threads each: {threads}")
    known, waiting, failed = dict.fromkeys((run.name for run in runs), "queued"), list(runs), list[str]()
    lost, looks, workers, looked = Counter[str](), 0, 0, 0.0
    try:
        while waiting:
            wanted = 1 if shared and len(waiting) == len(runs) else slots.count
            busy = sum(state == "running" for state in known.values())
            idle = looks % LOST == 0 and busy < min(wanted, len(waiting))
            if workers != wanted or (idle and queue.alive() < wanted):
                queue.start(slots, workers := wanted)
            time.sleep(min(max(POLL, SHARE * looked), LONGEST))
            began = time.monotonic()
            now, looks = queue.states(), looks + 1
            done, _ = here.done(waiting)
            looked = time.monotonic() - began
            for run in list(waiting):
                state = "done" if run.name in done else now.get(run.name, "dead")
                if state == "dead":
                    lost[run.name] += 1  # a busy worker may be late to answer
                    state = "failed" if lost[run.name] == LOST else known[run.name]
                else:
                    del lost[run.name]
                if state != known[run.name]:
                    known[run.name] = state
                    _print(_line(run.name, state, queue.log(run.name)))
                if state in ("done", "failed"):
                    waiting.remove(run)
                    failed += [run.name] if state == "failed" else []
    except KeyboardInterrupt:
        _print("The experiments go on. The same command follows them; `dvc queue stop --kill` ends them.")
        return None
    return failed


def _line(name: str, state: str, log: Path | None) -> str:
    """Return a line on an experiment, with the last lines of the log of a failed one."""
    if state != "failed" or log is None:
        return f"{state:8} {name}"
    text = log.read_bytes()[-20_000:].decode(errors="replace").replace("\r\n", "\n")
    last = [line for line in (one.rpartition("\r")[2].rstrip() for one in text.split("\n")) if line]
    return "\n    ".join([f"FAILED   {name}; full log: {os.path.relpath(log)}", *last[-SHOWN:]])


def _run_table(runs: Sequence[Trial], states: dict[str, str]) -> list[list[str]]:
    """Return the header and one row for each run: name, state, values."""
    keys = list(dict.fromkeys(key for run in runs for key in run.values))
    rows = [[run.name, states.get(run.name, "to do"), *(str(run.values.get(key, "-")) for key in keys)] for run in runs]
    return [["experiment", "state", *keys], *rows]


def _listing(project: Path, commit: str | None = None) -> Listing:
    """Return the experiments that DVC lists, of a commit or those of the last one."""
    from pipeline.experiments import queue, results

    return results.read(queue.listing(project, commit), project)


def _print_table(arguments: argparse.Namespace, listing: Listing) -> None:
    from pipeline.experiments import results

    groups: list[Group] = []
    if listing.experiments:
        groups = results.groups(listing.experiments, arguments.metric)
    if groups:
        print(laid_out(arguments, results.table(groups, exact=arguments.csv)))
    else:
        _print("no experiment of the last commit has results yet")
    if left_out := results.left_out(listing, groups):
        _print(f"left out: {', '.join(left_out)}")


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)
