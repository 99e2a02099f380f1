"""The command ``audit``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pipeline.cli.command import Commands, add_command, refuse

AUDIT = """\
Show the lineage of a number, figure, model or feature file, back to raw data.

--verify STAGE is the only proof: it runs the stage again in a copy and compares all
bytes. All else reads records: it catches mistakes, not fraud.

WHAT is a metrics file, a key in it (metrics/retrieval.json:test.full.rsum), any other
output such as plots/semantics/systems.tsv, models/encoder or
data/features/features.h5, or the name of a stage. Each stage has a line: its status,
the commit that recorded it, and its run. The status is ok only where facts of a run
have these inputs and outputs, and the current files are still the same; else
contradicted, edited or changed since (exit code 1), or missing, not checked out or
not seen (to run).
--full prints the parameters, command, code, data and outputs of each stage with
their hashes, machine and versions of the run. The command reads dvc.lock, git and
the facts of runs, works without the data, and reports what is not known.

  sightword audit metrics/retrieval.json:test.full.caption_to_image.r10
  sightword audit --history metrics/retrieval.json:test.full.caption_to_image.r10
  sightword audit --diff main my-experiment
  sightword audit --verify retrieval"""


def add(commands: Commands) -> None:
    """Add ``audit``."""
    parser = add_command(commands, "audit", AUDIT, _audit)
    parser.add_argument(
        "what", metavar="WHAT", nargs="?", help="the result; with --diff: compare only the stages that made it"
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--history", metavar="KEY", help="each commit and experiment with the value of FILE:KEY")
    other.add_argument(
        "--diff", metavar=("A", "B"), nargs=2,
        help="why the results of two commits or experiments differ; `workspace` means the current files",
    )  # fmt: skip
    other.add_argument("--verify", metavar="STAGE", help="run a stage again in a copy and compare bytes")
    parser.add_argument(
        "--rev", metavar="REV", default="", help="a commit or experiment (default: the workspace's lock)"
    )
    layout = parser.add_mutually_exclusive_group()
    layout.add_argument("--json", action="store_true", help="for machines")
    layout.add_argument("--full", action="store_true", help="everything that is known, with all digits")
    parser.add_argument("--all", action="store_true", help="with --history: commits of all branches and tags")


def _audit(arguments: argparse.Namespace) -> int:
    from pipeline.cli import lineage_text as text
    from pipeline.pipelines import find_project

    _check(arguments)
    project = find_project(Path.cwd())
    if arguments.verify:
        return _verify(arguments, project)
    if arguments.history:
        from pipeline.lineage.history import history

        found_past = history(arguments.history, project, start=Path.cwd(), everywhere=arguments.all)
        past = text.of_history(found_past)
        _print_json(past) if arguments.json else text.print_history(past, full=arguments.full)
        return 1 if any(point.edited or point.contradicted for point in found_past.points) else 0
    if arguments.diff:
        from pipeline.lineage.history import difference

        first, second = arguments.diff
        changed = difference(first, second, project, what=arguments.what or "", start=Path.cwd())
        values = text.of_difference(changed)
        _print_json(values) if arguments.json else text.print_difference(values, full=arguments.full)
        return 1 if changed.doubts or changed.edited else 0
    from pipeline.lineage.audit import audit

    result = audit(arguments.what, project, revision=arguments.rev, start=Path.cwd())
    values = text.of_audit(result)
    if arguments.json:
        _print_json(values)
    else:
        text.print_audit(values, full=arguments.full)
    return 1 if result.broken else 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    what, history, diff, verify = arguments.what, arguments.history, arguments.diff, arguments.verify
    refuse(
        arguments,
        (not (what or history or diff or verify), "of what? Give WHAT, or --history, --diff or --verify"),
        (what and (history or verify), "WHAT goes with --diff, or alone"),
        (arguments.rev and (history or diff), "--rev goes with WHAT or --verify"),
        (arguments.full and verify, "--full goes with WHAT, --history or --diff"),
        (arguments.all and not history, "--all goes with --history"),
    )


def _verify(arguments: argparse.Namespace, project: Path) -> int:
    import tempfile

    from pipeline.cli import lineage_text as text
    from pipeline.lineage.verify import verify

    with tempfile.TemporaryDirectory(prefix="sightword-verify-") as folder:
        verified = verify(arguments.verify, project, Path(folder), revision=arguments.rev)
    values = text.of_verification(verified)
    _print_json(values) if arguments.json else text.print_verification(values)
    return 0 if verified.same else 1


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
