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

from pipeline.doctor.probes import mask_address
from pipeline.lineage.lock import lock_here
from pipeline.params import params_file
from pipeline.pipelines import PARAMS, Pipeline, pipelines
from sightword.errors import SightwordError
from sightword.messages import last_line
from sightword.settings import Settings

DVC_SECONDS = 15.0
"""Time limit of DVC and the remote."""
TORCH_SECONDS = 60.0
"""Time limit of loading torch, which may be slow on a busy machine."""


class Probe:
    """A program in a process of its own that prints JSON objects, one a line; later objects add to earlier ones."""

    def __init__(self, command: Sequence[str], folder: Path, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        paths = [str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        # In a session of its own the program cannot ask the user for a password, and dies with all its children.
        self._process = subprocess.Popen(  # noqa: S603 - this Python, with modules of Sightword
            command, cwd=folder, start_new_session=True, encoding="utf-8", errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip

    @functools.cached_property
    def answer(self) -> dict[str, Any]:
        """The program's values; ``failed`` says why the program ended early, ``late`` that its time was over."""
        found: dict[str, Any] = {}
        try:
            output, errors = self._process.communicate(timeout=max(0.1, self._end - time.monotonic()))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            output, errors = self._process.communicate()
            found["late"] = True
        for line in output.splitlines():
            with contextlib.suppress(ValueError):  # libraries print other lines
                values = json.loads(line)
                found |= values if isinstance(values, dict) else {}
        if self._process.returncode and "late" not in found:
            found["failed"] = mask_address(last_line(errors.strip() or f"exit code {self._process.returncode}"))
        return found

    def close(self) -> None:
        """Stop the program if nobody has read its answer."""
        self._end = 0.0
        _ = self.answer


@dataclass
class Context:
    """The place of the checks, and the files of the project."""

    folder: Path
    """The user's working folder."""
    project: Path | None
    """The folder with ``dvc.yaml``; None outside a project."""
    quick: bool = False
    """Leave out slow checks."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Known answers of ``dvc`` and ``torch``; for tests."""
    _probes: dict[str, Probe] = field(default_factory=dict)

    def __enter__(self) -> Context:
        """Start the slow programs, side by side."""
        if self.project is not None and "dvc" not in self.facts:
            self._start("dvc", "--no-remote" if self.quick else "", DVC_SECONDS)
        if not self.quick and "torch" not in self.facts:
            features = self.section("features")
            self._start("torch", json.dumps(features.model_dump() if features else {}), TORCH_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        for probe in self._probes.values():
            probe.close()

    def _start(self, name: str, argument: str, seconds: float) -> None:
        # -P: modules in the working folder must not be imported.
        command = [sys.executable, "-P", "-m", "pipeline.doctor.probes", name, argument]
        self._probes[name] = Probe(command, self.project or self.folder, seconds)

    def ask(self, name: str) -> dict[str, Any]:
        """Return the answer of ``dvc`` or ``torch``; empty where the program was not started."""
        return self._probes[name].answer if name in self._probes else self.facts.get(name, {})

    @property
    def root(self) -> Path:
        """The project's folder, for checks that need a project."""
        assert self.project is not None
        return self.project

    @functools.cached_property
    def sections(self) -> Mapping[Pipeline, Mapping[str, Settings]]:
        """The sections of each pipeline of the project, by name; without pipelines whose parameters are wrong."""
        found = {}
        for pipeline in pipelines(self.project) if self.project else []:
            with contextlib.suppress(SightwordError):  # the check of files reports the error
                found[pipeline] = params_file.load(pipeline.project / pipeline.params)
        return found

    @functools.cached_property
    def _settings(self) -> Mapping[str, Settings]:
        return {one.full_name(name): own for one, found in self.sections.items() for name, own in found.items()}

    def section(self, name: str) -> Any:
        """Return a section, such as ``train`` or ``hypernyms/params.yaml:train``; None where there is none."""
        return self._settings.get(name)

    def has_run(self, stage: str) -> bool:
        """Return whether ``dvc.lock`` has a stage with its present parameters."""
        section = self.section(stage)
        try:
            entry = lock_here(self.root).entries.get(stage)
        except SightwordError:
            return False  # the check of files reports the error
        return bool(section and entry and entry.params.get(PARAMS, {}).get(stage) == section.model_dump())
