"""Checkpoints: a training run that is killed at any moment resumes to the bit.

A half-done run has a folder, named by a hash of all inputs of the run. The folder is deleted when the run is done, so
that a forced rerun trains again. It belongs to the process that holds a lock on the file ``NAME.lock``, which the
operating system releases when the process ends. A second process gets a folder ``NAME.XXXXXXXX``, deleted at the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from filelock import FileLock, Timeout

from sightword.errors import FileFormatError, TrainingError
from sightword.io.files import canonical_json, loads
from sightword.io.saved import entry, summed, typed, write_summed
from sightword.machine import threads

log = logging.getLogger(__name__)

SCHEMA = 3

DAMAGED = ".damaged"
"""Ending of a folder that was set aside."""
DAYS = 2.0
"""Age in days at which useless leftovers are removed."""

_LOCK = ".lock"
_WAIT = 0.5
"""Seconds to wait for a lock that another process is just removing."""
_STATE, _PROGRESS = "state", "progress"
_DAMAGE = (
    *(safetensors.SafetensorError, FileFormatError),
    *(AttributeError, KeyError, TypeError, ValueError, RuntimeError),
)


Columns = dict[str, list[tuple[int, float]]]
"""Curves by name: (batches done, value) of each point."""


@dataclass
class Progress:
    """The progress of a training run."""

    steps: int = 0
    """Number of batches done."""
    curves: dict[str, Columns] = field(default_factory=dict)
    """The curves of each table, such as ``loss`` and ``dev``."""
    best: float = -math.inf
    """The best score on dev."""
    best_step: int = 0
    """Batches done at the best score."""
    notes: dict[str, float] = field(default_factory=dict)
    """Numbers that belong to the best weights, or to the run, such as a threshold."""

    def curve(self, table: str, name: str) -> list[tuple[int, float]]:
        """Return the points of a curve, an empty list at first."""
        return self.curves.setdefault(table, {}).setdefault(name, [])

    def add(self, table: str, name: str, value: float) -> None:
        """Add a point to a curve."""
        self.curve(table, name).append((self.steps, value))

    def last(self, table: str, name: str) -> float:
        """Return the value of a curve's last point."""
        return self.curves[table][name][-1][1]

    def to_json(self) -> dict[str, Any]:
        """Return the progress as values that JSON has; curves keep their order."""
        return asdict(self) | {"best": self.best if math.isfinite(self.best) else None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Progress:
        """Return the progress that :meth:`to_json` described.

        Raises:
            ValueError: an entry has another type, or a number is not finite.
        """
        curves = {
            table: {
                name: [(typed(done, name, int), typed(value, name, float)) for done, value in points]
                for name, points in columns.items()
            }
            for table, columns in entry(values, "curves", dict).items()
        }
        best = -math.inf if values["best"] is None else entry(values, "best", float)
        notes = entry(values, "notes", dict)
        for name in notes:
            entry(notes, name, float)
        return cls(entry(values, "steps", int), curves, best, entry(values, "best_step", int), notes)


class Checkpoint:
    """The folder of one training run, from :func:`open_checkpoint`."""

    def __init__(self, folder: Path, held: contextlib.ExitStack | None = None) -> None:
        self.folder = folder
        self._held = held or contextlib.ExitStack()

    def save(self, progress: Progress, tensors: dict[str, torch.Tensor]) -> None:
        """Write the whole state; the earlier checkpoint stays valid until the new one is complete.

        Raises:
            OSError: the file system's error.
        """
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        about = json.dumps({"schema": SCHEMA, **progress.to_json()}, allow_nan=False)
        write_summed(self.folder, _STATE, safetensors.torch.save(plain, {_PROGRESS: about}))

    def load(self) -> tuple[Progress, dict[str, torch.Tensor]] | None:
        """Return the last complete state, or None at the start; a damaged checkpoint is reported and set aside.

        FileFormatError or OSError if the disk does not give it.
        """
        try:
            states = [_read(path) for path in summed(self.folder, _STATE)]
            return max(states, key=lambda state: state[0].steps, default=None)
        except _DAMAGE as error:
            if isinstance(error.__context__, OSError):
                raise
            aside = self.folder.with_name(self.folder.name + DAMAGED)
            shutil.rmtree(aside, ignore_errors=True)
            self.folder.rename(aside)
            os.utime(aside)  # from now on it is kept for a while
            self.folder.mkdir()
            log.warning("the checkpoint is damaged (%s): set aside as %s, training starts afresh", error, aside)
            return None

    def done(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def finished(self) -> Callable[[], None]:
        """Return a function that deletes the folder; until it is called, no other process takes the folder."""
        self._held.callback(self.done)
        return self._held.pop_all().close


def _read(path: Path) -> tuple[Progress, dict[str, torch.Tensor]]:
    with safetensors.safe_open(path, "pt") as file:
        about = loads(file.metadata()[_PROGRESS])
    if about["schema"] != SCHEMA:
        raise ValueError(f"has the format {about['schema']}")
    return Progress.from_json(about), safetensors.torch.load_file(path)


def part(tensors: Mapping[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    """Return the tensors whose names begin with a name, such as ``encoders.``, by the rest of their names."""
    return {key.removeprefix(name): value for key, value in tensors.items() if key.startswith(name)}


def restore(optimiser: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]) -> None:
    """Give an optimiser the state of an earlier one: tensors by the weight's number and a name, ``3.exp_avg``."""
    numbers = {int(name.partition(".")[0]) for name in tensors}
    state = {number: part(tensors, f"{number}.") for number in numbers}
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def unique(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors of modules, those that several modules share once."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, value in tensors.items():
        if value.data_ptr() not in seen or not value.numel():
            found[name] = value
            seen.add(value.data_ptr())
    return found


@contextlib.contextmanager
def open_checkpoint(
    scratch: Path, stage: str, *, inputs: str, device: str, parameters: Mapping[str, Any]
) -> Iterator[Checkpoint]:
    """Open the checkpoint of one run of a stage, in a folder of scratch that a hash names.

    Whatever can change an output is in the hash: a run of other code, data or parameters, by other versions of torch or
    numpy, on another type of device or with another number of threads starts afresh.

    Args:
        scratch: the folder of all half-done work.
        stage: the stage or system, a folder in there.
        inputs: the hash of code and data that the stage reads (:func:`pipeline.lineage.facts.inputs_hash`).
        device: the type of the device.
        parameters: the stage's parameters.
    """
    key = {
        "inputs": inputs,
        "parameters": dict(parameters),
        "versions": [torch.__version__, np.__version__],
        "machine": [device, threads()],
    }
    name = hashlib.sha256(canonical_json(key).encode()).hexdigest()
    with contextlib.ExitStack() as held:
        folder = held.enter_context(take_folder(scratch / stage, name[:32]))
        try:
            yield Checkpoint(folder, held)
        except TrainingError:
            log.warning("%s: what was kept before the error, if anything, is in %s", stage, folder)
            raise


@contextlib.contextmanager
def take_folder(place: Path, name: str) -> Iterator[Path]:
    """Hold the folder ``place/name`` for this process only, and remove leftovers beside it; the name has no dot.

    Yields:
        The folder, with the half-done work if there is some; or, if another process has the folder, a new one that is
        deleted at the end. Whoever finishes the work deletes the folder.
    """
    place.mkdir(parents=True, exist_ok=True)
    clear(place)
    folder = place / name
    lock = _take(folder, seconds=_WAIT)
    if lock is None:
        log.warning("another process trains with the same inputs now: this run starts anew and cannot be resumed")
        folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=place))
        lock = _take(folder, seconds=_WAIT)
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        if folder.name != name:
            shutil.rmtree(folder, ignore_errors=True)
        _release(lock, folder)


def clear(place: Path) -> None:
    """Remove leftovers older than :data:`DAYS`: damaged folders, locks without a folder, folders of second processes.

    A folder whose lock is held stays, and so does half-done work of any age.
    """
    for path in sorted(place.iterdir()):
        folder = path.with_suffix("") if path.suffix == _LOCK else path
        half_done = folder.is_dir() and "." not in folder.name
        if half_done or not _is_old(path):
            continue
        if path.suffix == DAMAGED:
            shutil.rmtree(path, ignore_errors=True)
        elif lock := _take(folder, seconds=0):
            if "." in folder.name:  # of a second process
                shutil.rmtree(folder, ignore_errors=True)
            _release(lock, folder)


def _take(folder: Path, *, seconds: float) -> FileLock | None:
    """Return the held lock of a folder; None if another process holds it."""
    lock = FileLock(folder.with_name(folder.name + _LOCK), timeout=seconds, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:  # that of a file system without locks has no name
        raise OSError(error.errno, error.strerror, lock.lock_file) from None
    return lock


def _release(lock: FileLock | None, folder: Path) -> None:
    """Release a folder's lock; without the folder, remove the lock's file too, while the lock is held."""
    if lock is not None:
        if not folder.exists():
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _is_old(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime > DAYS * 86_400
    return False
