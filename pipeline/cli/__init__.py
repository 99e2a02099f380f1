"""The command ``sightword``, for the tasks of a user that ``dvc`` does not do.

A command imports its packages when it runs, so ``--help`` answers at once, also without the packages of the extras.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import sightword
from pipeline.cli import compare, doctor, downloads, encoder, init, lineage, params, search, store, sweeps
from pipeline.cli.command import Parser
from sightword.errors import SightwordError, message_of
from sightword.messages import install_extra


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; ``argv`` None takes the arguments of the process.

    Returns:
        The exit code: 0 done, 1 an error with a message on standard error, 2 wrong arguments, 130 interrupted.
    """
    parser = _parser()
    arguments = parser.parse(argv)
    if not hasattr(arguments, "run"):
        parser.print_help(sys.stderr)
        parser.exit(2)
    try:
        code: int = arguments.run(arguments)
        print(end="", flush=True)  # also where standard output is closed
    except (SightwordError, MemoryError, RuntimeError) as error:
        if (told := message_of(error)) is None:
            raise
        print(f"sightword: {told}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if not _raised_here(error):
            raise
        missing = f"the package {error.name} is not installed"
        print(f"sightword: {missing}. {install_extra(arguments.extra)}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has closed the pipe (`sightword params | head`); nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"sightword: {place}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _raised_here(error: ModuleNotFoundError) -> bool:
    """Return whether a module of Sightword imports the missing one, and not a user's module or another package."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    module = "" if place is None else str(place.tb_frame.f_globals.get("__name__"))
    return module.split(".")[0] in ("sightword", "pipeline")


def _parser() -> Parser:
    parser = Parser(
        prog="sightword",
        description="Train, search and audit encoders of captioned pictures; `dvc repro` runs the stages.",
    )
    parser.add_argument("--version", action="version", version=f"sightword {sightword.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for room in (init, params, sweeps, compare, encoder, search, store, lineage, downloads, doctor):
        room.add(commands)
    return parser
