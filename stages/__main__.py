"""What all stages share: arguments, parameters, logging, and errors a user can read."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML

from pipeline.lineage.facts import Recorder
from pipeline.params import params_file
from sightword import machine
from sightword.errors import SightwordError
from sightword.files import FULL
from sightword.settings import Settings

SettingsT = TypeVar("SettingsT", bound=Settings)

log = logging.getLogger("sightword")


@dataclass(frozen=True)
class Option:
    """An option of one stage; its value, a text, goes to the stage's ``work`` by name."""

    flag: str
    metavar: str
    help: str

    @property
    def name(self) -> str:
        """The name of the argument of ``work``."""
        return self.flag.strip("-").replace("-", "_")


Notes = Mapping[str, Any]
"""What a stage has to say of its run, such as the weights it used: it goes into the run's facts."""
Cleanup = Callable[[], object]
"""Deletes the state from which a failed run would go on; called once outputs and facts are written."""


def run(
    name: str,
    settings_class: type[SettingsT],
    work: Callable[..., Notes | Cleanup | None],
    options: Sequence[Option] = (),
) -> None:
    """Run one stage as a program: read its section, do its work, exit.

    Under DVC the facts of the run are kept (:mod:`pipeline.lineage.facts`).

    Args:
        name: of the stage.
        settings_class: of its section.
        work: called with the section's settings, and the options that were given; returns notes for the facts, or a
            function to call once the facts are written.
        options: those this stage has beside the common ones.

    Exit codes: 0 done, 1 a mistake that the message explains, 2 wrong arguments,
    130 interrupted.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m stages.{name}", description=f"The stage {name} of dvc.yaml. {work.__doc__ or ''}"
    )
    parser.add_argument("--params", default="params.yaml", help="the parameter file (default: %(default)s)")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="log more; twice for debugging")
    parser.add_argument("-q", "--quiet", action="store_true", help="log only warnings and errors")
    for option in options:
        parser.add_argument(option.flag, metavar=option.metavar, help=option.help)
    arguments = parser.parse_args()
    given = {option.name: getattr(arguments, option.name) for option in options}
    start_logging(verbose=arguments.verbose, quiet=arguments.quiet)
    try:
        here = machine.current()  # a wrong setting is told before any work
        recorder = Recorder(name, Path.cwd(), here) if os.environ.get("DVC_STAGE") else None
        _finish(name, work(params_file.section(arguments.params, settings_class), **given), recorder)
    except SightwordError as error:
        _fail(name, str(error), debug=arguments.verbose > 1)
    except OSError as error:
        if error.errno not in (*FULL, errno.EACCES, errno.EROFS):
            raise
        place = f" ({error.filename})" if error.filename else ""
        _fail(name, f"{os.strerror(error.errno)}{place}. Nothing half-written is left.", debug=arguments.verbose > 1)
    except KeyboardInterrupt:
        log.error("%s: interrupted", name)
        sys.exit(130)


def _finish(name: str, result: Notes | Cleanup | None, recorder: Recorder | None) -> None:
    """Write the facts, then clean up. Nothing here fails the run: DVC would delete the outputs."""
    notes, clean = (None, result) if callable(result) else (result, None)
    kept = recorder is None or recorder.finish(notes) is not None
    if clean is None:
        return
    if not kept:
        log.warning("%s: the checkpoint is kept, in case DVC cannot keep the outputs either", name)
        return
    try:
        clean()
    except OSError as error:
        log.warning("%s: the checkpoint cannot be deleted (%s)", name, error)


def start_logging(*, verbose: int = 0, quiet: bool = False) -> None:
    """Log to standard error, plainly: this package at INFO, others at WARNING, more with ``verbose``."""
    logging.basicConfig(
        level=logging.DEBUG if verbose > 1 else logging.WARNING, format="%(message)s", stream=sys.stderr, force=True
    )
    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    for ours in ("__main__", "sightword", "pipeline", "stages"):
        logging.getLogger(ours).setLevel(level)
    logging.captureWarnings(True)


def _fail(name: str, message: str, *, debug: bool) -> None:
    log.error("%s: %s", name, message, exc_info=debug)
    if os.environ.get("DVC_STAGE"):
        log.error(
            "%s: DVC removed this stage's earlier outputs before it ran. To have them back: %s", name, _recovery(name)
        )
    sys.exit(1)


def _recovery(name: str) -> str:
    """The commands that bring back the outputs of one stage: from DVC's cache, and from git."""
    stage = YAML(typ="safe", pure=True).load(Path("dvc.yaml").read_text(encoding="utf-8"))["stages"][name]
    cached: list[str] = []
    tracked: list[str] = []
    for out in [*stage.get("outs", []), *stage.get("metrics", [])]:
        path, options = next(iter(out.items())) if isinstance(out, dict) else (out, {})
        (cached if options.get("cache", True) else tracked).append(path)
    commands = [f"dvc checkout {' '.join(cached)}"] if cached else []
    commands += [f"git checkout -- {' '.join(tracked)}"] if tracked else []
    return "`" + "` and `".join(commands) + "`"
