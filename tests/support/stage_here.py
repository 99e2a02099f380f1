"""A stage run as ``python -m stages NAME`` runs it, but in the process of the test, where torch is loaded already."""

from __future__ import annotations

import contextlib
import io
import logging
import runpy
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

MACHINE = {"SIGHTWORD_DEVICE": "cpu", "SIGHTWORD_THREADS": "1", "SIGHTWORD_WORKERS": "0"}


def run_here(
    repository: Path, folder: Path, stage: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a stage's program in a folder, and return its exit code and what it printed.

    Args:
        repository: whose stage.
        folder: where it works.
        stage: its name.
        arguments: of the program.
        environment: variables beside those of the machine.
    """
    out, error, code = io.StringIO(), io.StringIO(), 0
    with (
        pytest.MonkeyPatch.context() as patch,
        _logging_as_it_was(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
    ):
        patch.chdir(folder)
        patch.delenv("DVC_STAGE", raising=False)
        for name, value in {**MACHINE, **environment}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["stages", stage, *arguments])
        try:
            runpy.run_path(str(repository / "stages/__main__.py"), run_name="__main__")
        except SystemExit as stop:
            code = stop.code or 0
        except Exception:  # noqa: BLE001  # whatever it is, the interpreter would print it
            traceback.print_exc()
            code = 1
    return subprocess.CompletedProcess([stage, *arguments], code, out.getvalue(), error.getvalue())


@contextlib.contextmanager
def _logging_as_it_was() -> Iterator[None]:
    """Warnings are told as a program tells them; handlers and levels are those of before afterwards."""
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in ("__main__", "sightword", "pipeline", "stages"))]
    handlers, levels = list(root.handlers), [logger.level for logger in loggers]
    root.handlers[:] = []  # or they would be closed
    try:
        with warnings.catch_warnings():
            warnings.resetwarnings()
            yield
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
