"""Adds commands and options to the parser, and lays out tables."""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from sightword.messages import guess, short

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Run = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """A parser whose message on a misspelt command, choice or option names the nearest one."""

    def parse(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Return the arguments; an unknown one is an error of its command, whose options are known."""
        arguments, rest = self.parse_known_args(argv)
        if rest:
            command = getattr(arguments, "parser", self)
            near = guess(rest[0].split("=")[0], re.findall(r"--[a-z-]+", command.format_usage()))
            command.error(f"unrecognized arguments: {short(' '.join(rest))}{near}")
        return arguments

    def error(self, message: str) -> NoReturn:
        """Print usage and message, and exit with 2."""
        if choice := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)$", message):
            near = guess(choice[1], re.findall(r"[\w.:-]+", choice[2]))
            message = message.replace(" (choose from", f"{near} (choose from") if near else message
        super().error(message)


def add_command(
    commands: Commands, name: str, description: str, run: Run, *, extra: str = "pipeline"
) -> argparse.ArgumentParser:
    """Add a command; the list of commands has the first line of its description.

    ``run`` returns the exit code; ``extra`` is the extra of the distribution with the packages that it imports.
    """
    parser = commands.add_parser(
        name,
        help=description.splitlines()[0].rstrip("."),
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser, extra=extra)
    return parser


def refuse(arguments: argparse.Namespace, *cases: tuple[object, str]) -> None:
    """Report wrong arguments by the message of the first case that applies, with exit code 2."""
    for applies, message in cases:
        if applies:
            arguments.parser.error(message)


def add_column(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--column``, which goes with ``--from``."""
    what = "with --from: a column of the table that has no usual name, such as caption=alt; may be given again"
    parser.add_argument("--column", metavar="ROLE=NAME", action="append", default=[], help=what)


def laid_out(arguments: argparse.Namespace, lines: Sequence[Sequence[str]]) -> str:
    """Return a table, the header first, as text or as CSV, by the option ``--csv``."""
    if not arguments.csv:
        return columns(lines)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue().rstrip("\n")


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Return a table as text, the header first, its columns side by side."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
