"""How each command is added to the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Run = Callable[[argparse.Namespace], int]


def add_command(
    commands: Commands, name: str, description: str, run: Run, *, extra: str = "pipeline"
) -> argparse.ArgumentParser:
    """Add a command; the first line of its description stands in the list of commands.

    Args:
        commands: the parser's commands.
        name: what a person types.
        description: the help of the command.
        run: takes the arguments, returns the exit code.
        extra: the extra of the distribution that brings the packages which the command imports.
    """
    parser = commands.add_parser(
        name,
        help=description.splitlines()[0].rstrip("."),
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser, extra=extra)
    return parser


def add_layout(parser: argparse.ArgumentParser, csv: str) -> None:
    """The options ``--md`` and ``--csv``, of which at most one is given."""
    layout = parser.add_mutually_exclusive_group()
    layout.add_argument("--md", action="store_true", help="a Markdown table")
    layout.add_argument("--csv", action="store_true", help=csv)


def laid_out(arguments: argparse.Namespace, lines: Sequence[Sequence[str]]) -> str:
    """A table as the options of :func:`add_layout` want it."""
    from pipeline.cli import text_table

    return (text_table.to_csv if arguments.csv else text_table.to_markdown if arguments.md else text_table.to_text)(
        lines
    )
