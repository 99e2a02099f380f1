"""Checkpoints: a training run that is killed at any moment resumes to the bit.

A half-done run has a folder, named by a hash of all inputs of the run. The folder is deleted when the run is done, so
that a forced rerun trains again.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch

from sightword.errors import FileFormatError, TrainingError
from sightword.io.files import Pathish, canonical_json, read_json, sha256_file, write_json
from sightword.model.encoders import Encoders
from sightword.model.saved import write_tensors
from sightword.training.code_hash import code_hash
from sightword.training.scratch import DAMAGED, take_folder
from sightword.training.snapshots import file_name

log = logging.getLogger(__name__)

SCHEMA = 1
SECONDS = 60.0
"""Seconds between two checkpoints within an epoch; one more is written after each epoch."""

_INDEX = "checkpoint.json"
_DAMAGE = (safetensors.SafetensorError, FileFormatError, OSError, KeyError, TypeError, ValueError, RuntimeError)


@dataclass
class Progress:
    """The progress of a training run."""

    epoch: int = 0
    """Number of epochs done."""
    batches: int = 0
    """Number of batches of the next epoch done."""
    history: dict[str, list[Any]] = field(default_factory=dict)
    stuck: int = 0
    """Number of successive epochs, up to the last one done, that looked stuck."""


class Checkpoint:
    """The folder of one training run, from :func:`open_checkpoint`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, progress: Progress, tensors: dict[str, torch.Tensor]) -> None:
        """Write the whole state; the earlier checkpoint stays valid until the new one is complete.

        Raises:
            OSError: the file system's error.
        """
        path = self.folder / f"state-{progress.epoch:03d}-{progress.batches:06d}.safetensors"
        write_tensors(path, tensors)
        index = {"schema": SCHEMA, "file": path.name, "sha256": sha256_file(path), **asdict(progress)}
        write_json(self.folder / _INDEX, index)
        for other in self.folder.glob("state-*.safetensors"):
            if other != path:
                other.unlink(missing_ok=True)

    def load(self) -> tuple[Progress, dict[str, torch.Tensor]] | None:
        """Return the last complete state, or None at the start; a damaged checkpoint is reported and set aside."""
        if not (self.folder / _INDEX).exists():
            return None
        try:
            index = read_json(self.folder / _INDEX)
            path = self.folder / index["file"]
            if index["schema"] != SCHEMA or sha256_file(path) != index["sha256"]:
                raise ValueError("its sha256 is not the one that was written")
            progress = Progress(**{name: index[name] for name in Progress.__dataclass_fields__})
            return progress, safetensors.torch.load_file(path)
        except _DAMAGE as error:
            aside = self.folder.with_name(self.folder.name + DAMAGED)
            shutil.rmtree(aside, ignore_errors=True)
            self.folder.rename(aside)
            os.utime(aside)  # from now on it is kept for a while
            self.folder.mkdir()
            log.warning("the checkpoint is damaged (%s): set aside as %s, training starts afresh", error, aside)
            return None

    def keep(self, epoch: int, encoders: Encoders) -> None:
        """Write the snapshot of an epoch."""
        write_tensors(self.folder / file_name(epoch), encoders.state_dict())

    def copy_snapshots(self, folder: Path, epochs: int) -> list[int]:
        """Copy the snapshots of a run of so many epochs into an existing folder; return the epochs of the snapshots."""
        kept = [epoch for epoch in range(1, epochs + 1) if (self.folder / file_name(epoch)).exists()]
        for epoch in kept:
            shutil.copyfile(self.folder / file_name(epoch), folder / file_name(epoch))
        return kept

    def done(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def part(tensors: Mapping[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    """Return the tensors whose names begin with a name, such as ``encoders.``, by the rest of their names."""
    return {key.removeprefix(name): value for key, value in tensors.items() if key.startswith(name)}


def restore(optimiser: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]) -> None:
    """Give an optimiser the state of an earlier one: tensors by the weight's number and a name, ``3.exp_avg``."""
    numbers = {int(name.partition(".")[0]) for name in tensors}
    state = {number: part(tensors, f"{number}.") for number in numbers}
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


@contextlib.contextmanager
def open_checkpoint(scratch: Pathish, inputs: dict[str, Any]) -> Iterator[Checkpoint]:
    """Open the checkpoint, in a folder of scratch, of the training run with these inputs (settings and hashes).

    The hash of the training code and the versions of torch and numpy are added to the inputs.
    """
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    name = hashlib.sha256(canonical_json({**inputs, "code": code_hash(), **versions}).encode()).hexdigest()
    with take_folder(Path(scratch) / "train", name[:32]) as folder:
        try:
            yield Checkpoint(folder)
        except TrainingError:
            log.warning("train: the snapshots kept so far, if any, are in %s", folder)
            raise
