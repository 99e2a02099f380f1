"""The launcher of the stages: arguments, parameters, logging, facts of the run, and errors a user can read.

A stage of a pipeline (:mod:`pipeline.pipelines`) is a module of this package, or of the package with the name of a
further pipeline's folder. The module has ``SETTINGS``, the class of its section; ``work``, which takes the settings and
returns notes for the facts, or a function to call once the facts are written, or nothing; and perhaps ``OPTIONS``,
arguments of :meth:`argparse.ArgumentParser.add_argument`. The options that are keys of the stage's matrix are required.
With ``ALSO``, names of other sections of the same file, or of parameters in them, ``work`` takes their values by the
last part of the names. With ``SCORES`` it takes ``enter``, which enters scorings in the ledger before any output is
written. With ``CHECKPOINT`` a killed run goes on where it was, and ``work`` takes ``inputs``, the hash of the stage's
dependencies.
A stage does not import the launcher: nothing here can change its outputs.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from pipeline import systems
from pipeline.experiments.slots import take_gpu
from pipeline.lineage import code_lists
from pipeline.lineage.facts import OUTS, Entering, Recorder, inputs_hash, listed
from pipeline.lineage.lock import lock_here
from pipeline.params import params_file
from pipeline.pipelines import ITEM, MATRIX, Pipeline, by_entry, folder_of, pipelines, project_of, stage_of
from sightword import machine
from sightword.errors import SetupError, SightwordError, message_of
from sightword.evaluation.ledger import Scoring
from sightword.io.files import FULL
from sightword.io.modules import leave_pandas
from sightword.messages import and_more

log = logging.getLogger("sightword")

Notes = Mapping[str, Any]
"""Notes of a stage for the facts of the run, such as the weights it used."""
Cleanup = Callable[[], object]
"""Deletes the state from which a failed run would resume, once outputs and facts are written."""


def main() -> None:
    """Run one stage; under DVC the facts of the run are kept (:mod:`pipeline.lineage.facts`).

    Exit codes: 0 done, 1 an error that the message explains, 2 wrong arguments, 130 interrupted, also by SIGTERM.
    """
    try:
        pipeline, stage_name, stage, arguments = _arguments()
    except SightwordError as error:
        sys.exit(f"python -m stages: {error}")
    name = pipeline.address(_entry(stage_name))
    options = [flag.strip("-").replace("-", "_") for flag in getattr(stage, "OPTIONS", {})]
    given = {option: getattr(arguments, option) for option in options}
    _start_logging(quiet=arguments.quiet)
    leave_pandas()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        here = take_gpu(machine.current())  # a wrong setting is reported before any work
        code_lists.check(pipeline.stages[stage_name], Path.cwd())
        recorder = Recorder(name, Path.cwd(), here) if os.environ.get("DVC_STAGE") else None
        settings = params_file.section(arguments.params, stage_name)
        for section, _, key in (one.partition(".") for one in getattr(stage, "ALSO", ())):
            values = params_file.section(arguments.params, section)
            given[key or section] = getattr(values, key) if key else values
        if hasattr(stage, "CHECKPOINT"):
            given["inputs"] = inputs_hash(pipeline.stages[stage_name], arguments.params, given)
        entering = None
        if hasattr(stage, "SCORES"):
            items = "-".join(str(given[key]) for key in pipeline.stages[stage_name].get(MATRIX, {}))
            run = name if ITEM in name or not items else f"{name}{ITEM}{items}"
            entering = given["enter"] = Entering(pipeline, run, arguments.params)
        result = stage.work(settings, **given)
        if recorder:
            recorder.check_unchanged(kept=callable(result))
        _finish(name, result, recorder, entering.scorings if entering else None)
    except (SightwordError, MemoryError, RuntimeError) as error:
        if (told := message_of(error)) is None:
            raise
        _fail(name, told)
    except OSError as error:
        if not error.filename and error.errno not in FULL:
            raise
        where = f" ({error.filename})" if error.filename else ""
        what = f"{error.strerror}{where}. Nothing half-written is left."
        todo = "`sightword doctor` checks the folders, and names the variables for others."
        _fail(name, SightwordError(what, todo=todo))
    except KeyboardInterrupt:
        log.error("%s: interrupted", name)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _give_back(name)
        sys.exit(130)


def _arguments() -> tuple[Pipeline, str, Any, argparse.Namespace]:
    """Return the stage's pipeline, its name, its module, and the options; a stage has its own help."""
    about = "Run one stage by itself, as DVC does."
    parser = argparse.ArgumentParser(prog="python -m stages", description=about)
    first, *further = pipelines(project_of(Path.cwd()))
    folders = {one.folder: one for one in further}
    parser.add_argument(
        "stage",
        choices=[*first.stages, *folders],
        help="or a further pipeline, before its stage; `NAME --help` tells more",
    )
    name, options = parser.parse_args(sys.argv[1:2]).stage, sys.argv[2:]
    pipeline = folders.get(name, first)
    words = ["python -m stages", name]
    if pipeline.folder:
        parser = argparse.ArgumentParser(prog=" ".join(words), description=about)
        parser.add_argument("stage", choices=list(pipeline.stages), help="`NAME --help` lists its options")
        name, options = parser.parse_args(options[:1]).stage, options[1:]
        words.append(name)
    stage = systems.load(pipeline, name)
    if stage is None:
        raise SetupError(f"there is no {systems.path(pipeline, name)}", where=pipeline.address(name))
    parser = argparse.ArgumentParser(
        prog=" ".join(words), description=f"The stage {name} of {pipeline.dvc_yaml}. {stage.work.__doc__ or ''}"
    )
    parser.add_argument("--params", default=pipeline.params, help="the parameter file (default: %(default)s)")
    parser.add_argument("-q", "--quiet", action="store_true", help="log only warnings and errors")
    own = pipeline.stages[name].get(MATRIX, {})
    items = [flag for flag in getattr(stage, "OPTIONS", {}) if flag.strip("-") in own]
    for flag, words in getattr(stage, "OPTIONS", {}).items():
        parser.add_argument(flag, **(words | {"required": False} if flag in items else words))
    arguments = parser.parse_args(options)
    if [flag for flag in items if getattr(arguments, flag.strip("-")) is None]:
        runs = [run.rpartition(ITEM)[2] for run in pipeline.runs() if stage_of(run) == pipeline.address(name)]
        parser.error(f"one run of {name} is for one item: give {' and '.join(items)}; items are {and_more(runs, 8)}")
    return pipeline, name, stage, arguments


def _entry(name: str) -> str:
    """Return the name of a stage's entry in ``dvc.lock``: under DVC with the item of a matrix, such as ``@cg-0``."""
    entry = os.environ.get("DVC_STAGE", "").rpartition(":")[2]
    return entry if stage_of(entry) == name else name


def _finish(
    name: str, result: Notes | Cleanup | None, recorder: Recorder | None, scorings: Sequence[Scoring] | None = None
) -> None:
    """Write the facts, then clean up. Nothing here fails the run: DVC would delete the outputs."""
    kept = recorder is None or recorder.finish(None if callable(result) else result, scorings) is not None
    if not callable(result):
        return
    try:
        if kept:
            result()
        else:
            log.warning("%s: the checkpoint is kept, in case DVC cannot keep the outputs either", name)
    except OSError as error:
        log.warning("%s: the checkpoint cannot be deleted (%s)", name, error)


def _start_logging(*, quiet: bool) -> None:
    """Log to standard error: first-party packages at INFO, or ``quiet`` at WARNING; others at WARNING."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[_Lines()], force=True)
    level = logging.WARNING if quiet else logging.INFO
    for ours in ("sightword", "pipeline", "stages"):
        logging.getLogger(ours).setLevel(level)
    logging.captureWarnings(True)


class _Lines(logging.StreamHandler[TextIO]):
    """Logs to standard error above the progress bars, which are drawn again below."""

    def emit(self, record: logging.LogRecord) -> None:
        with tqdm.external_write_mode(self.stream):
            super().emit(record)


def _interrupt(number: int, _: object) -> None:
    """Interrupt the work, as Ctrl-C does, once."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _fail(name: str, error: SightwordError) -> None:
    log.error("%s: %s", name, error)
    _give_back(name)
    sys.exit(1)


def _give_back(name: str) -> None:
    """Tell how to have the outputs back that DVC removed before it started this stage."""
    if not os.environ.get("DVC_STAGE"):  # an address from the folder in which `dvc repro` was started
        return
    try:
        ran = name in lock_here(Path.cwd()).entries
    except SightwordError:
        ran = Pipeline(Path.cwd(), folder_of(name)).has_run
    if not ran:
        return
    recovery = " and ".join(f"`{command} {' '.join(paths)}`" for command, paths in _outputs(name).items() if paths)
    log.error("%s: DVC removed this stage's earlier outputs before it ran. To have them back: %s", name, recovery)


def _outputs(name: str) -> dict[str, list[str]]:
    """Return the outputs of a ``dvc.lock`` entry by the command that restores them, from DVC's cache or from git."""
    kept: dict[bool, list[str]] = {True: [], False: []}
    for path, options in listed(by_entry(Path.cwd())[name], OUTS):
        kept[options.get("cache", True)].append(path)
    force = " --force" * any(Path(path).exists() for path in kept[True])  # where this run has written some
    return {f"dvc checkout{force}": kept[True], "git checkout --": kept[False]}


if __name__ == "__main__":
    main()
