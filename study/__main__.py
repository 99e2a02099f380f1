"""``python -m study``: list, add, check, show and make again the rows of results (study/README.md says how)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from pipeline.pipelines import find_project
from sightword.errors import SightwordError
from sightword.machine import processor
from sightword.messages import plural, quote
from study import origins, prose, remake, rows, runs


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 1 for an error, or for a fault of rows and pages."""
    parser = argparse.ArgumentParser(prog="python -m study", description=__doc__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    commands.add_parser("list", help="list all rows").set_defaults(run=_list)
    commands.add_parser("check", help="list the faults of rows and pages").set_defaults(run=_check)
    commands.add_parser("pages", help="fill the tables of all pages from the rows").set_defaults(run=_pages)
    add = commands.add_parser("add", help="add a finished run to a row")
    add.set_defaults(run=_add)
    add.add_argument("row", metavar="TOPIC/NAME")
    add.add_argument("--rev", metavar="REV", default="", help="a commit or experiment (default: what lies here)")
    add.add_argument("--recipe", metavar="NAME", help="the recipe (default: that of the row)")
    add.add_argument(
        "--private",
        metavar="PATH=REASON",
        action="append",
        default=[],
        type=_reason,
        help="why nobody else can have an input",
    )
    add.add_argument("--note", metavar="SENTENCE", help="what a reader of the row must know")
    add.add_argument("--scores", metavar="REGEX", default="", help="keep the scores whose names match (default: all)")
    add.add_argument("--replace", action="store_true", help="replace the row's run with the same seed")
    again = commands.add_parser("remake", help="make a row's run again")
    again.set_defaults(run=_remake)
    again.add_argument("row", metavar="TOPIC/NAME")
    again.add_argument("--seed", metavar="N", type=int, help="the seed of the run (default: the row's first)")
    again.add_argument("--dry-run", action="store_true", help="only check that data and parameters are there")
    arguments = parser.parse_args(argv)
    try:
        code: int = arguments.run(arguments, find_project(Path.cwd()))
    except SightwordError as error:
        print(f"study: {error}", file=sys.stderr)
        return 1
    return code


def _list(_: argparse.Namespace, project: Path) -> int:
    for key, row in rows.read_rows(project).items():
        marks = ["private inputs"] * bool(row.private) + ["no hashes"] * (not row.hashed)
        print("\t".join([key, row.recipe or "-", " ".join(map(str, row.seeds)), ", ".join(marks)]))
    return 0


def _check(_: argparse.Namespace, project: Path) -> int:
    every = rows.read_rows(project)
    faults = prose.table_faults(project) + prose.prose_faults(project, every)
    faults += origins.faults(project, every)
    print("\n".join(faults) or "the tables are those of the rows")
    return 1 if faults else 0


def _pages(_: argparse.Namespace, project: Path) -> int:
    changed = prose.fill(project)
    print("\n".join(os.path.relpath(path) for path in changed) or "no page has changed")
    return 0


def _add(arguments: argparse.Namespace, project: Path) -> int:
    key = arguments.row
    every = rows.read_rows(project)
    recipe = arguments.recipe or (every[key].recipe if key in every else None)
    if recipe is None:
        raise SightwordError("a new row needs a recipe", where=key, todo="--recipe NAME")
    finished = runs.Finished(project, arguments.rev, recipe)
    row = runs.extended(
        project, key, finished, private=dict(arguments.private), note=arguments.note, scores=arguments.scores,
        replace=arguments.replace,
    )  # fmt: skip
    print(f"{os.path.relpath(rows.write_row(project, row))}: {key}, recipe {recipe}, seeds {row.seeds}")
    for name, value in row.overrides.items():
        print(f"  {name}: {value}")
    return 0


def _remake(arguments: argparse.Namespace, project: Path) -> int:
    row = rows.find_row(project, arguments.row)
    run = remake.find_run(row, arguments.seed)
    notes = remake.check_data(project, row, run)
    for note in notes:
        print(f"other data: {note}", file=sys.stderr)
    if arguments.dry_run:
        origins.wholes(row.recipe or "", row.overrides, project)
        print(f"{row.key}: can be made again here")
        return 0
    again = remake.rerun(project, row, run, arguments.seed)
    equal = run.processor == processor() and bool(run.inputs) and not notes
    equal = equal and all(version(name) == one for name, one in run.packages.items())
    found = remake.compare(row, run, again, equal=equal)
    for one in found:
        bounds = "not known" if one.low is None else f"{one.low:.6g} to {one.high:.6g}"
        print(f"{one.name}: row {one.row:.6g}, again {one.again}, allowed {bounds}{', BEYOND' * one.beyond}")
    rule = "all must be equal" if equal else "machine, packages or data are not the row's, so they may differ by chance"
    beyond = sum(one.beyond for one in found)
    equals = plural(len(run.scores) - len(found), "score")
    print(f"{equals} equal, {len(found)} differ, {beyond} beyond the bounds ({rule})", file=sys.stderr)
    return 1 if beyond else 0


def _reason(text: str) -> tuple[str, str]:
    path, sign, reason = text.partition("=")
    if not (path.strip() and sign and reason.strip()):
        raise argparse.ArgumentTypeError(f"{quote(text)} is not PATH=REASON")
    return path.strip(), reason.strip()


if __name__ == "__main__":
    sys.exit(main())
