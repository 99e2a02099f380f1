"""Shares the memory-mapped training split among the processes of a machine."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.io.files import canonical_json
from sightword.machine import Place
from sightword.training.processes import ALONE, Processes

_NAMES = ("features", "ids", "ends", "numbers", "image_of_caption")
Inputs = tuple[Pairs, Pairs | None, int]
"""The training split, the captions without pictures, if there are any, and the number of ids."""


def write_split(folder: Path, split: Pairs) -> None:
    """Write a split, without names and texts, into a folder, for :func:`map_split`."""
    ends = np.cumsum([len(ids) for ids in split.ids])
    owners, ids = split.image_of_caption, np.concatenate(split.ids)
    arrays: tuple[npt.NDArray[Any], ...] = (split.features, ids, ends, split.numbers, owners)
    folder.mkdir(exist_ok=True)
    for name, values in zip(_NAMES, arrays, strict=True):
        np.save(folder / f"{name}.npy", values)


def map_split(folder: Path) -> Pairs:
    """Map the files of :func:`write_split`, which may then be deleted; names and texts are missing."""
    # Copied when written to, which nothing does: torch only takes memory that may be written to.
    arrays = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c")) for name in _NAMES)
    features, ids, ends, numbers, owners = arrays
    return Pairs([""] * len(features), features, [], np.split(ids, ends[:-1]), numbers, owners)


def share(processes: Processes, own: Inputs | None, hashes: Mapping[str, Any], scratch: Path) -> Inputs:
    """Return the captions, in memory that all processes of a machine share.

    Args:
        processes: this process and the others of the run.
        own: the captions, which the first process of each machine has read; None in the others.
        hashes: the inputs that they were made from; empty in the others.
        scratch: the folder in which the split is for a moment.

    Raises:
        TrainingError: another machine has other inputs.
        OSError: the file system's error.
    """
    if processes.count == 1:
        assert own is not None
        return own
    inputs = canonical_json(dict(hashes)).encode()
    if processes.from_first(inputs) != inputs and own is not None:
        what = f"machine {processes.machine + 1} has other parameters, features or captions than machine 1"
        raise TrainingError(what, todo="Run `dvc pull` there, or let all machines work in one folder.")
    with contextlib.ExitStack() as stack:
        folder = ""
        if own is not None:
            (scratch / "train").mkdir(parents=True, exist_ok=True)
            # A dot in the name marks what a killed process leaves behind, to be removed.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ranks.", dir=scratch / "train"))
            split, beside, tokens = own
            write_split(Path(folder) / "pairs", split)
            if beside:
                write_split(Path(folder) / "beside", beside)
            (Path(folder) / "tokens").write_text(str(tokens))
        place = Path(processes.from_first_here(folder))
        mapped = map_split(place / "pairs")
        others = map_split(place / "beside") if (place / "beside").exists() else None
        count = int((place / "tokens").read_text())
        processes.wait()
    return (replace(mapped, image_ids=own[0].image_ids, texts=own[0].texts) if own else mapped), others, count


@contextlib.contextmanager
def joined(place: Place, device: torch.device) -> Iterator[Processes]:
    """Yield this process among the others of its run, once all of them have come.

    Raises:
        RanksError: the others do not come.
    """
    if place.ranks == 1:
        yield ALONE
        return
    from sightword.training.group import group  # it loads torch's launcher

    with group(place, device) as found:
        yield found
