"""The context of the checks: the project, its files as plain values, and answers of DVC and torch."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.doctor.dvc_facts import mask_address
from pipeline.lineage.lock import Lock, read_lock
from pipeline.params import params_file
from pipeline.pipelines import LOCK
from sightword.errors import SightwordError
from sightword.files import read_text
from sightword.settings import Settings

DVC_SECONDS = 15.0
"""Time limit of DVC and the remote."""
TORCH_SECONDS = 60.0
"""Time limit of loading torch, which may be slow on a busy machine."""


class Probe:
    """A program in a process of its own that prints JSON objects, one a line; later objects add to earlier ones.

    Args:
        command: the program and its arguments.
        given: the program's standard input.
        folder: the working folder.
        seconds: the time limit.
        extra: additional environment variables.
    """

    def __init__(
        self,
        command: Sequence[str],
        given: str,
        folder: Path,
        *,
        seconds: float,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self._end = time.monotonic() + seconds
        # In a session of its own the program cannot ask the user for a password, and dies with all its children.
        self._process = subprocess.Popen(  # noqa: S603 - this Python, with modules of Sightword
            command,
            cwd=folder,
            env={**os.environ, **(extra or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer shows that the program ended at once
            self._process.stdin.write(given)
            self._process.stdin.flush()

    @functools.cached_property
    def answer(self) -> dict[str, Any]:
        """The program's values; ``failed`` says why the program ended early, ``late`` that its time was over."""
        found: dict[str, Any] = {}
        try:
            output, errors = self._process.communicate(timeout=max(0.1, self._end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._stop()
            output, errors = self._process.communicate()
            found["late"] = True
        for line in output.splitlines():
            with contextlib.suppress(ValueError):  # libraries print other lines
                values = json.loads(line)
                found |= values if isinstance(values, dict) else {}
        if self._process.returncode and not found.get("late"):
            last = (errors.strip().splitlines() or [f"exit code {self._process.returncode}"])[-1]
            found["failed"] = mask_address(last)
        return found

    def _stop(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop the program if nobody has read its answer."""
        if "answer" not in self.__dict__:
            self._stop()
            self._process.communicate()


@dataclass
class Context:
    """The place of the checks, and the files of the project.

    Args:
        folder: the user's working folder.
        project: the folder with ``dvc.yaml``; None outside a project.
        quick: leave out slow checks.
        facts: known answers of ``dvc`` and ``torch``; for tests.
    """

    folder: Path
    project: Path | None
    quick: bool = False
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _probes: dict[str, Probe] = field(default_factory=dict)

    def __enter__(self) -> Context:
        """Start the slow programs, side by side."""
        if self.project is not None and "dvc" not in self.facts:
            self._start("dvc", ["--no-remote"] if self.quick else [], {}, DVC_SECONDS)
        if not self.quick and "torch" not in self.facts:
            features = self.section("features")
            self._start("torch", [], {} if features is None else features.model_dump(), TORCH_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        for probe in self._probes.values():
            probe.close()

    def _start(self, name: str, options: Sequence[str], given: Mapping[str, Any], seconds: float) -> None:
        code = Path(__file__).resolve().parents[2]
        paths = [str(code), *filter(None, [os.environ.get("PYTHONPATH")])]
        extra = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
        # -P: modules in the working folder must not be imported.
        command = [sys.executable, "-P", "-m", f"pipeline.doctor.{name}_facts", *options]
        folder = self.project or self.folder
        self._probes[name] = Probe(command, json.dumps(given) + "\n", folder, seconds=seconds, extra=extra)

    def ask(self, name: str) -> dict[str, Any]:
        """Return the answer of ``dvc`` or ``torch``; empty where the program was not started."""
        if name not in self.facts and name in self._probes:
            self.facts[name] = self._probes[name].answer
        return self.facts.get(name, {})

    @functools.cached_property
    def settings(self) -> dict[str, Settings] | None:
        """The checked parameters; None where ``params.yaml`` cannot be used, which the check ``files`` reports."""
        try:
            return params_file.load(self.project / "params.yaml") if self.project else None
        except SightwordError:
            return None

    def section(self, name: str) -> Any:
        """Return one section of the parameters; None where there are none."""
        return self.settings.get(name) if self.settings else None

    @functools.cached_property
    def lock(self) -> Lock:
        """``dvc.lock``; without stages where it cannot be read, which the check ``files`` reports."""
        try:
            return read_lock(read_text(self.project / LOCK)) if self.project else Lock({})
        except SightwordError:
            return Lock({})

    def has_run(self, stage: str) -> bool:
        """Return whether ``dvc.lock`` has a stage with its present parameters."""
        section, entry = self.section(stage), self.lock.entries.get(stage)
        locked = entry.params.get("params.yaml") if entry and isinstance(entry.params, Mapping) else None
        return section is not None and isinstance(locked, Mapping) and locked.get(stage) == section.model_dump()
