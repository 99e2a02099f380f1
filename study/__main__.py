"""The command ``results``, which looks after the rows of results."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.command import Commands, add_command, add_layout, laid_out
from sightword.messages import plural, quote

if TYPE_CHECKING:
    from pipeline.results.agreement import Difference
    from pipeline.results.records import Run

RESULTS = """\
Look after the rows of results, files that git has in results/: list, add, check.

A row is a recipe with what differs from it, and for each seed a run: its scores
with their intervals, its commit and machine, and the hashes of its inputs and
outputs. docs/audit.md shows how a row is made and checked."""

LIST = "List all rows: recipe, runs, seeds, and what nobody else can have."

ADD = """\
Make a row from a finished run, or add the run to the row.

The run is the one whose results lie here, or that of a commit or an experiment
(--rev). The recipe with the fewest parameters that differ is found, and those
that differ stand in the row; seeds and titles do not count. A run is refused
whose numbers are not of its parameters, or whose code is in no commit; and an
input that neither git nor `sightword fetch` has, unless --private says why.
A row of a large grid may keep few of its scores (--scores)."""

CHECK = """\
Make a run of a row again, and compare all scores.

The run has the recipe, the last commit's code, and the data that lies here; it
runs in a clone, and of your files only the ledger of scorings may grow. On the
same kind of machine, with the same inputs and versions of numpy and torch, all
scores must be equal. Otherwise each must be within 2.5 standard deviations of
the row's mean, or, where the row has fewer than three seeds, within its own
95 % interval. Exits with 1 when one is not."""

PAGES = """\
Fill the tables of the pages from the rows, as results/tables.yaml lays them out.

A table stands between `<!-- table: NAME -->` and `<!-- end -->` on a page of
docs/ or in README.md. With --check nothing is written: the faults are listed,
such as a table that is not of the rows, a row that no table shows, or a number
in the text that no table has, and the exit code is 1 if there are any."""


def add(commands: Commands) -> None:
    """Add ``results`` with its own commands."""
    results = add_command(commands, "results", RESULTS, _list)
    results.set_defaults(md=False, csv=False)
    actions = results.add_subparsers(title="commands", metavar="COMMAND")
    add_layout(add_command(actions, "list", LIST, _list), csv="CSV")
    one = add_command(actions, "add", ADD, _add)
    one.add_argument("row", metavar="TOPIC/NAME", help="the row: its file is results/TOPIC/NAME.json")
    one.add_argument("--rev", metavar="REV", default="", help="a commit or experiment (default: what lies here)")
    one.add_argument("--recipe", metavar="NAME", help="the recipe (default: that of the row, else the nearest one)")
    reason = "why nobody else can have an input; may be given again"
    one.add_argument("--private", metavar="PATH=REASON", action="append", default=[], type=_reason, help=reason)
    one.add_argument("--note", metavar="SENTENCE", help="what a reader of the row must know")
    only = "keep the scores whose names match in some part (default: all)"
    one.add_argument("--scores", metavar="REGEX", default="", help=only)
    one.add_argument("--replace", action="store_true", help="replace the row's run with the same seed")
    check = add_command(actions, "check", CHECK, _check)
    check.add_argument("row", metavar="TOPIC/NAME", help="the row, as `sightword results` lists it")
    check.add_argument("--seed", metavar="N", type=int, help="the seed of the run (default: the row's first)")
    check.add_argument("--dry-run", action="store_true", help="only check that data and parameters are there")
    add_layout(check, csv="CSV")
    pages = add_command(actions, "pages", PAGES, _pages)
    pages.add_argument("--check", action="store_true", help="only list the faults of pages and rows")


def _list(arguments: argparse.Namespace) -> int:
    from pipeline.pipelines import find_project
    from pipeline.results.records import rows

    lines = [["row", "recipe", "overrides", "seeds", "marks"]]
    for key, row in rows(find_project(Path.cwd())).items():
        marks = ["private inputs"] * bool(row.private)
        marks += ["hashes not recorded"] * (not row.hashed)
        seeds = " ".join(map(str, sorted(row.seeds)))
        lines.append([key, row.recipe or "-", str(len(row.overrides) or ""), seeds, ", ".join(marks)])
    print(laid_out(arguments, lines) if len(lines) > 1 else "no rows yet: `sightword results add TOPIC/NAME` makes one")
    return 0


def _add(arguments: argparse.Namespace) -> int:
    from pipeline.pipelines import find_project
    from pipeline.results import addition
    from pipeline.results.records import path_of, read_row, write_row

    project = find_project(Path.cwd())
    path, recipe = path_of(project, arguments.row), arguments.recipe
    if recipe is None and path.exists():
        recipe = read_row(path).recipe
    found = addition.find_run(project, arguments.rev, recipe, arguments.scores)
    private, note = dict(arguments.private), arguments.note
    row = addition.extended(project, arguments.row, found, private=private, note=note, replace=arguments.replace)
    write_row(project, row)
    print(f"{os.path.relpath(path)}: {plural(len(found.run.scores), 'score')} of {_made_by(found.run)}")
    print(f"  recipe {row.recipe}" + "".join(f"\n    {key}: {value}" for key, value in row.overrides.items()))
    print(f"  seeds of the row: {' '.join(map(str, sorted(row.seeds)))}")
    return 0


def _pages(arguments: argparse.Namespace) -> int:
    from pipeline.pipelines import find_project
    from pipeline.results import intervals, pages, prose, provenance
    from pipeline.results.records import rows

    project = find_project(Path.cwd())
    if arguments.check:
        every = rows(project)
        faults = pages.faults(project) + prose.faults(project, every) + provenance.faults(project, every)
        faults += intervals.faults(every)
        print("\n".join(faults) if faults else "the tables are those of the rows")
        return 1 if faults else 0
    changed = pages.write(project)
    print("\n".join(os.path.relpath(path) for path in changed) if changed else "no page has changed")
    return 0


def _made_by(run: Run) -> str:
    """Return the seeds, the commit and the machine of a run in words."""
    seeds = f"the seed {run.seeds[0]}" if len(run.seeds) == 1 else f"the seeds {' '.join(map(str, run.seeds))}"
    return (
        f"{seeds}, commit {(run.commit or 'unknown')[:7]}, {run.processor or 'unknown machine (no facts of the run)'}"
    )


def _reason(text: str) -> tuple[str, str]:
    path, sign, reason = text.partition("=")
    if not (path.strip() and sign and reason.strip()):
        raise argparse.ArgumentTypeError(f"{quote(text)} is not PATH=REASON")
    return path.strip(), reason.strip()


def _check(arguments: argparse.Namespace) -> int:
    from pipeline.pipelines import find_project
    from pipeline.results import agreement, rerun
    from pipeline.results.records import path_of, read_row

    project = find_project(Path.cwd())
    row = read_row(path_of(project, arguments.row))
    prepared = rerun.prepare(project, row, arguments.seed)
    for note in prepared.notes:
        print(f"other data: {note}", file=sys.stderr)
    print(f"{row.key}: {_made_by(prepared.run)}", file=sys.stderr)
    if arguments.dry_run:
        print(f"{row.key}: can be made again here")
        return 0
    again = rerun.rerun(prepared)
    equal = again.same_machine and bool(prepared.run.inputs) and not prepared.notes
    found = agreement.compare(row, prepared.run, again.scores, equal=equal)
    beyond = sum(one.beyond for one in found)
    if found:
        print(laid_out(arguments, [["score", "row", "again", "allowed", ""], *map(_difference, found)]))
    same = len(prepared.run.scores) - len(found)
    rule = "all must be equal" if equal else "machine, packages or data are not the row's, so they may differ by chance"
    free = sum(not one.judged for one in found)
    counts = f"{len(found)} differ, {beyond} beyond the bounds{f', {free} without known bounds' if free else ''}"
    print(f"{plural(same, 'score')} equal, {counts} ({rule})", file=sys.stderr)
    return 1 if beyond else 0


def _difference(one: Difference) -> list[str]:
    allowed = "not known" if one.low is None else f"{one.low:.6g} to {one.high:.6g}"
    again = "none" if one.again is None else f"{one.again:.6g}"
    return [one.name, f"{one.row:.6g}", again, allowed, "BEYOND" if one.beyond else ""]
