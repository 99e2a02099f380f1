"""A training that can be killed at any moment and goes on where it was, to the bit.

What is half done lives in a folder of its own, named by all that determines the training; it is
deleted when the training is done, so that a forced rerun proves something.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch

from sightword.errors import FileFormatError
from sightword.files import Pathish, canonical_json, read_json, sha256_file, write_json
from sightword.model.saved import write_tensors
from sightword.training.code_hash import code_hash
from sightword.training.scratch import DAMAGED, take_folder

log = logging.getLogger(__name__)

SCHEMA = 1
SECONDS = 60.0
"""Between two checkpoints within an epoch; one more is written after each epoch."""

_INDEX = "checkpoint.json"
_DAMAGED = (safetensors.SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError)


@dataclass
class Progress:
    """How far a training is."""

    epoch: int = 0
    """Epochs done."""
    batches: int = 0
    """Batches of the next epoch done."""
    history: dict[str, list[Any]] = field(default_factory=dict)
    """The curves of the epochs done."""
    stuck: int = 0
    """Epochs in a row, the last one done included, that looked stuck."""


class Checkpoint:
    """The folder of one training.

    Args:
        folder: from :func:`open_checkpoint`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, progress: Progress, tensors: dict[str, torch.Tensor]) -> None:
        """Write all state; until the last moment the earlier checkpoint is the valid one.

        Raises:
            OSError: what the file system says.
        """
        path = self.folder / f"state-{progress.epoch:03d}-{progress.batches:06d}.safetensors"
        write_tensors(path, tensors)
        index = {"schema": SCHEMA, "file": path.name, "sha256": sha256_file(path), **asdict(progress)}
        write_json(self.folder / _INDEX, index)
        for other in self.folder.glob("state-*.safetensors"):
            if other != path:
                other.unlink(missing_ok=True)

    def load(self) -> tuple[Progress, dict[str, torch.Tensor]] | None:
        """The last state that was saved whole; None at the start.

        One that is damaged is said, set aside and not used.
        """
        if not (self.folder / _INDEX).exists():
            return None
        try:
            index = read_json(self.folder / _INDEX)
            path = self.folder / index["file"]
            if index["schema"] != SCHEMA or sha256_file(path) != index["sha256"]:
                raise ValueError("its sha256 is not the one that was written")
            progress = Progress(**{name: index[name] for name in Progress.__dataclass_fields__})
            return progress, safetensors.torch.load_file(path)
        except (*_DAMAGED, FileFormatError) as error:
            aside = self.folder.with_name(self.folder.name + DAMAGED)
            shutil.rmtree(aside, ignore_errors=True)
            self.folder.rename(aside)
            os.utime(aside)  # from now on it is kept for a while
            self.folder.mkdir()
            log.warning("a half-done training is damaged (%s): set aside as %s, started afresh", error, aside)
            return None

    def done(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def open_checkpoint(scratch: Pathish, inputs: dict[str, Any]) -> Iterator[Checkpoint]:
    """The checkpoint of the training that these inputs determine.

    Args:
        scratch: the folder of half-done work.
        inputs: settings and hashes, as plain values; the code of the training and the versions of torch and numpy are
            added here.

    Yields:
        The checkpoint. Where another process trains the very same, one in a folder of its own.
    """
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    name = hashlib.sha256(canonical_json({**inputs, "code": code_hash(), **versions}).encode()).hexdigest()
    with take_folder(Path(scratch) / "train", name[:32]) as folder:
        yield Checkpoint(folder)
