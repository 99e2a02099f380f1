"""The command ``sightword``: what a person does beside ``dvc``.

Everything heavy is imported by the command that needs it, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pipeline.cli import doctor, downloads, encoder, lineage, project, search, store, sweeps, systems
from sightword import __version__
from sightword.errors import SightwordError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments after the program's name; default: those of the process.

    Returns:
        The exit code: 0 done, 1 a mistake that the message on standard error
        explains, 2 wrong arguments, 130 interrupted.
    """
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except SightwordError as error:
        print(f"sightword: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has seen enough (`sightword params | head`); nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"sightword: {place}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sightword", description="From pictures with captions to a sentence encoder: what goes beside `dvc repro`."
    )
    parser.add_argument("--version", action="version", version=f"sightword {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for room in (project, sweeps, systems, encoder, search, store, lineage, downloads, doctor):
        room.add(commands)
    return parser
