"""The command that compares two runs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.command import Commands, add_command, laid_out, refuse

if TYPE_CHECKING:
    from pipeline.comparison.contrast import Contrast, Side

COMPARE = """\
Compare two runs: recalls, semantic scores and the other pipelines, with tests and intervals.

A and B are commits, branches or experiments of this project, or `workspace` for the
current files: their results come from git and DVC's cache. A and B may also be other
projects, or tables of pairs (pairs.parquet of the stage semantics); an existing path is
a project or a table. `dvc plots diff A B` draws the curves of both.
--published compares A with a system of Merkx & Frank 2019, by the rule of the paper,
since only the correlations of the system are known.

  sightword compare main my-experiment
  sightword compare HEAD workspace
  sightword compare . ../other-project
  sightword compare . --published char-gru"""

MOST_SAMPLES = 1_000_000


def add(commands: Commands) -> None:
    """Add ``compare``."""
    compare = add_command(commands, "compare", COMPARE, _compare)
    compare.add_argument("a", metavar="A", help="a commit, branch or experiment, a project, or a table of pairs")
    compare.add_argument("b", metavar="B", nargs="?", help="the other run, with scores on the same queries and pairs")
    compare.add_argument("--published", metavar="NAME", help="instead of B: bow, infersent, char-gru or char-gru-coco")
    compare.add_argument("--samples", metavar="N", type=int, help="resamples, and random swaps (default: 10000)")
    compare.add_argument("--seed", metavar="N", type=int, help="seed of the resamples and swaps (default: 0)")
    csv = "print a single table as CSV, with all digits: correlations, else recalls, else the first further pipeline"
    compare.add_argument("--csv", action="store_true", help=csv)


def _compare(arguments: argparse.Namespace) -> int:
    published = arguments.published is not None
    drawn = arguments.samples is not None or arguments.seed is not None
    samples = 1 if arguments.samples is None else arguments.samples
    refuse(
        arguments,
        ((arguments.b is None) != published, "compare A with what? Give either B or --published NAME"),
        (published and drawn, "--samples and --seed need B: the published pairs are not known"),
        (not 1 <= samples <= MOST_SAMPLES, f"--samples N must be from 1 to {MOST_SAMPLES}"),
        (arguments.seed is not None and arguments.seed < 0, "--seed N cannot be below 0"),
    )
    from pipeline.comparison import contrast
    from pipeline.pipelines import find_project
    from sightword.errors import SetupError

    given = {"samples": arguments.samples, "seed": arguments.seed}
    options = {name: value for name, value in given.items() if value is not None}
    try:
        project: Path | None = find_project(Path.cwd())
    except SetupError:
        named = [name for name in (arguments.a, arguments.b) if name is not None]
        if any("." not in name and os.sep not in name and contrast.is_revision(name) for name in named):
            raise
        project = None
    if published:
        return _beside_published(arguments, project)
    with contrast.opened(arguments.a, arguments.b, project) as (a, b):
        compared = contrast.contrast(a, b, project=project, **options)
        _print_contrast(arguments, compared)
    return 0


def _print_contrast(arguments: argparse.Namespace, compared: Contrast) -> None:
    """Print tables and verdicts; as CSV only one table, the first with rows among the tables of the option --csv."""
    from pipeline.comparison import table

    parts = []
    if compared.recalls and not (arguments.csv and compared.semantics):
        below = table.recall_verdict(compared.recalls, compared.samples)
        parts.append((table.recall_lines(compared.recalls, exact=arguments.csv), below))
    if compared.semantics is not None:
        parts.append((table.lines(compared.semantics, exact=arguments.csv), table.verdict(compared.semantics)))
    for one in compared.tested:
        if not (arguments.csv and parts):
            parts.append((table.result_lines(one, exact=arguments.csv), table.result_verdict(one)))
    if compared.numbers and not (arguments.csv and parts):
        parts.append((table.number_lines(compared.numbers, exact=arguments.csv), ["These scores have no test."]))
    head = [_heading(side) for side in (compared.a, compared.b)]
    drawn = ["the pictures"] * bool(compared.recalls) + ["the pairs"] * (compared.semantics is not None)
    tail = (
        [f"Bootstrap: {compared.samples} resamples of {' and of '.join(drawn)}, seed {compared.seed}."] if drawn else []
    )
    if compared.recalls:
        tail[0] += " As many swaps of the pictures' answers."
    if compared.because:
        tail.append("\n".join(["why", *(f"  {line}" for line in compared.because)]))
    _print(arguments, head, parts, tail)
    for note in compared.notes:
        print(note, file=sys.stderr)
    if compared.semantics is not None:
        _print_left_out(compared.semantics.left_out)


def _heading(side: Side) -> str:
    return f"{side.label}: {f'{side.name} ({side.about})' if side.revision else side.about}"


def _beside_published(arguments: argparse.Namespace, project: Path | None) -> int:
    from pipeline.comparison import contrast, correlations, table
    from sightword.errors import LineageError
    from sightword.evaluation import published
    from sightword.evaluation.semantics.results import read_pairs

    with contrast.opened(arguments.a, arguments.a, project) as (side, _):
        if side.pairs is None and side.revision:
            raise LineageError(f"has no {correlations.PAIRS} here", where=side.name, todo="`dvc fetch` brings it.")
        pairs = read_pairs(side.pairs or correlations.pairs_file(side.folder or side.name))
        beside = published.beside_published(pairs, arguments.published)
    head = [_heading(side), f"B: {published.SYSTEMS[arguments.published]}, {published.SOURCE}"]
    lines = table.published_lines(beside, exact=arguments.csv)
    _print(arguments, head, [(lines, [table.published_verdict(beside, arguments.published)])], [])
    _print_left_out(beside.left_out)
    return 0


def _print(
    arguments: argparse.Namespace, head: list[str], parts: list[tuple[list[list[str]], list[str]]], tail: list[str]
) -> None:
    """Print tables, each with its sentences below; as CSV nothing else."""
    tables = [laid_out(arguments, lines) for lines, _ in parts]
    if arguments.csv:
        print(*tables, sep="\n\n")
        return
    texts = [text for table, (_, below) in zip(tables, parts, strict=True) for text in (table, "\n".join(below))]
    print("\n".join(head), *texts, *tail, sep="\n\n")


def _print_left_out(names: list[str]) -> None:
    if names:
        print(f"left out: {', '.join(names)}", file=sys.stderr)
