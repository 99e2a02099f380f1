"""The command ``results``, which looks after the rows of results."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.cli.command import Commands, add_command, add_layout, laid_out

RESULTS = """\
Look after the rows of results, files that git has in results/: list, add, check.

A row is a recipe with what differs from it, and for each seed a run: its scores
with their intervals, its commit and machine, and the hashes of its inputs and
outputs. docs/making-results.md shows how a row is made and checked."""

LIST = "List all rows: recipe, runs, seeds, and what nobody else can have."


def add(commands: Commands) -> None:
    """Add ``results`` with its own commands."""
    results = add_command(commands, "results", RESULTS, _list)
    results.set_defaults(md=False, csv=False)
    actions = results.add_subparsers(title="commands", metavar="COMMAND")
    add_layout(add_command(actions, "list", LIST, _list), csv="CSV")


def _list(arguments: argparse.Namespace) -> int:
    from pipeline.pipelines import find_project
    from pipeline.results.records import rows

    lines = [["row", "recipe", "overrides", "seeds", "marks"]]
    for key, row in rows(find_project(Path.cwd())).items():
        marks = ["private inputs"] * bool(row.private)
        marks += ["hashes not recorded"] * any(not run.inputs or not run.outputs for run in row.runs)
        seeds = " ".join(map(str, sorted(row.seeds)))
        lines.append([key, row.recipe or "-", str(len(row.overrides) or ""), seeds, ", ".join(marks)])
    print(laid_out(arguments, lines) if len(lines) > 1 else "no rows yet: `sightword results add TOPIC/NAME` makes one")
    return 0
