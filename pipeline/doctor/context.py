"""What the checks look at: the project, its files as plain values, and what programs beside this one were asked."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.lineage import documents
from pipeline.lineage.lock import LOCK, Entry, Lock, read_lock
from pipeline.params import params_file
from sightword.errors import SightwordError
from sightword.files import read_text
from sightword.settings import Settings

PATIENCE = 15.0
"""Seconds that DVC may take, and the remote that it asks."""
LOADING = 60.0
"""Seconds that torch may take: a slow disk or a busy machine is no defect of it."""

_USER = re.compile(r"://[^/@\s]*@")


class Asked:
    """A program that was started to say something: JSON objects, one a line, later ones adding to earlier ones.

    Args:
        command: the program and its arguments.
        given: what it reads.
        folder: where it works.
        patience: seconds it may take.
        extra: environment variables.
    """

    def __init__(
        self,
        command: Sequence[str],
        given: str,
        folder: Path,
        *,
        patience: float,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self._end = time.monotonic() + patience
        # A session of its own: it can neither ask the user for a password nor outlive the time it is given.
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
        with contextlib.suppress(BrokenPipeError):  # what ended at once is found out when its answer is read
            self._process.stdin.write(given)
            self._process.stdin.flush()

    @functools.cached_property
    def answer(self) -> dict[str, Any]:
        """What it said. Under ``failed`` why it ended early, under ``late`` whether it took too long."""
        found: dict[str, Any] = {}
        try:
            said, complaints = self._process.communicate(timeout=max(0.1, self._end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.stop()
            said, complaints = self._process.communicate()
            found["late"] = True
        for line in said.splitlines():
            with contextlib.suppress(ValueError):  # what libraries print is no answer
                values = json.loads(line)
                found |= values if isinstance(values, dict) else {}
        if self._process.returncode and not found.get("late"):
            last = (complaints.strip().splitlines() or [f"it ended with {self._process.returncode}"])[-1]
            found["failed"] = _USER.sub("://***@", last)
        return found

    def stop(self) -> None:
        """End it, and what it started."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it where nobody has waited for its answer."""
        if "answer" not in self.__dict__:
            self.stop()
            self._process.communicate()


@dataclass
class Situation:
    """Where the checks are made.

    Args:
        folder: where the user is.
        project: the folder with ``dvc.yaml``; None outside of one.
        quick: leave out what takes long.
        dvc: the module that is asked what DVC knows; None for nobody.
    """

    folder: Path
    project: Path | None
    quick: bool = False
    dvc: str | None = None
    known: dict[str, Any] = field(default_factory=dict)
    """What is known already: answers of programs, and what one check found out and another needs too."""
    _running: dict[str, Asked] = field(default_factory=dict)

    def __enter__(self) -> Situation:
        """Start what takes long, side by side."""
        if self.project is not None and self.dvc:
            options = ["--no-remote"] if self.quick else []
            self._ask("dvc", [self.dvc, *options], "")
        if not self.quick:
            given = {} if self.settings is None else {name: one.model_dump() for name, one in self.settings.items()}
            question = {"params": given, "tokens": self.tokens, "width": self._precomputed_width()}
            self._ask("torch", ["pipeline.doctor.torch_facts"], json.dumps(question))
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._running.values():
            one.close()

    def _ask(self, name: str, words: Sequence[str], given: str) -> None:
        code = Path(__file__).resolve().parents[2]
        paths = [str(code), *filter(None, [os.environ.get("PYTHONPATH")])]
        extra = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-P", "-m", *words]  # -P: not the code of the folder it works in
        patience = LOADING if name == "torch" else PATIENCE
        self._running[name] = Asked(command, given + "\n", self.project or self.folder, patience=patience, extra=extra)

    def facts(self, name: str) -> dict[str, Any]:
        """What ``dvc`` or ``torch`` answered; empty where it was not asked."""
        if name in self.known:
            answer: dict[str, Any] = self.known[name]
            return answer
        return self._running[name].answer if name in self._running else {}

    @functools.cached_property
    def settings(self) -> dict[str, Settings] | None:
        """The parameters, typed; None where there are none that can be used, which a check of its own tells."""
        try:
            return params_file.load(self.project / "params.yaml") if self.project else None
        except SightwordError:
            return None

    def section(self, name: str) -> Any:
        """One section of the parameters; None where there are none."""
        return self.settings[name] if self.settings else None

    @functools.cached_property
    def pipeline(self) -> dict[str, Any]:
        """``dvc.yaml`` as plain values; empty where it cannot be read, which a check of its own tells."""
        try:
            found = documents.parse(read_text(self.project / "dvc.yaml"), "dvc.yaml") if self.project else {}
        except SightwordError:
            return {}
        return found if isinstance(found, dict) else {}

    @functools.cached_property
    def lock(self) -> Lock:
        """``dvc.lock``; without stages where there is none that can be read, which a check of its own tells."""
        try:
            return read_lock(read_text(self.project / LOCK)) if self.project else Lock({})
        except SightwordError:
            return Lock({})

    def is_current(self, stage: str) -> bool:
        """Whether the lock has a stage, and those before it, with the parameters of now; code is not looked at."""
        if self.settings is None or stage not in self.lock.entries:
            return False
        try:
            chain = self.lock.chain(stage)
        except SightwordError:
            return False  # a lock whose stages go round in a circle
        return all(self._has_settings(entry) for entry in chain)

    def _has_settings(self, entry: Entry) -> bool:
        section = self.settings.get(entry.name) if self.settings else None
        locked = entry.params.get("params.yaml") if isinstance(entry.params, Mapping) else None
        return section is not None and isinstance(locked, Mapping) and locked.get(entry.name) == section.model_dump()

    @functools.cached_property
    def tokens(self) -> int:
        """How many token ids the captions have; before they were encoded, about."""
        if self.project is not None and self.is_current("captions"):
            path = self.project / "data/captions/vocabulary.json"
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                return len(json.loads(path.read_text(encoding="utf-8"))["tokens"]) + 2
        settings = self.section("captions")
        return 10_000 if settings is not None and settings.unit == "word" else 100

    def _precomputed_width(self) -> int | None:
        settings = self.section("features")
        if settings is None or settings.source != "precomputed" or self.project is None:
            return None
        shape = precomputed_shape(self.project / settings.inputs / settings.precomputed)
        return int(shape[1]) if shape and len(shape) == 2 else None


def precomputed_shape(path: Path) -> tuple[int, ...] | None:
    """Rows and width of a file of precomputed features; None where it cannot be read."""
    try:
        if path.suffix == ".npy":
            import numpy as np

            return tuple(np.load(path, mmap_mode="r", allow_pickle=False).shape)
        import h5py

        with h5py.File(path, "r") as file:
            return tuple(file["features"].shape)
    except Exception:  # noqa: BLE001 - a damaged file raises whatever its reader happens to meet
        return None
