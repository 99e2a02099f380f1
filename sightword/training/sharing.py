"""A split as files that the ranks of a machine map, so that memory holds its features and captions once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightword.pairs import Pairs

_NAMES = ("features", "ids", "ends", "numbers", "image_of_caption", "tokens")


def write_split(folder: Path, split: Pairs, tokens: int) -> None:
    """Write a split, without names and texts, and the number of ids into a folder."""
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
