"""What the ranks of a run have in common: a split that all on a machine map, and the state from which a run resumes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch

from sightword.features.pairs import Pairs
from sightword.training.checkpoint import Progress
from sightword.training.ranks import Ranks

_NAMES = ("features", "ids", "ends", "numbers", "image_of_caption", "tokens")


def write_split(folder: Path, split: Pairs, tokens: int) -> None:
    """Write a split, without names and texts, and the number of ids into a folder, for :func:`map_split`."""
    ends = np.cumsum([len(ids) for ids in split.ids])
    owners, ids = split.image_of_caption, np.concatenate(split.ids)
    arrays: tuple[npt.NDArray[Any], ...] = (split.features, ids, ends, split.numbers, owners, np.array([tokens]))
    for name, values in zip(_NAMES, arrays, strict=True):
        np.save(folder / f"{name}.npy", values)


def map_split(folder: Path) -> tuple[Pairs, int]:
    """Map the files of :func:`write_split`, which may then be deleted; names and texts are missing."""
    # Copied when written to, which nothing does: torch only takes memory that may be written to.
    arrays = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c")) for name in _NAMES)
    features, ids, ends, numbers, owners, tokens = arrays
    return Pairs([""] * len(features), features, [], np.split(ids, ends[:-1]), numbers, owners), int(tokens[0])


def resumed(
    found: tuple[Progress, dict[str, torch.Tensor]] | None, ranks: Ranks
) -> tuple[Progress, dict[str, torch.Tensor]] | None:
    """Return what :meth:`Checkpoint.load` found in the first rank, in all ranks."""
    if ranks.count == 1:
        return found
    progress = ranks.from_first(json.dumps(asdict(found[0])).encode() if found else b"")  # in the order given
    tensors = ranks.from_first(safetensors.torch.save(found[1]) if found else b"")
    return (Progress(**json.loads(progress)), safetensors.torch.load(tensors)) if progress else None
