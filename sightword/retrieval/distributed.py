"""Ranks computed by the workers of a cluster, each of which takes some captions at a time, and all pictures."""

from __future__ import annotations

import errno
import functools
import logging
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from sightword import devices
from sightword.cluster.actors import Actors
from sightword.cluster.nodes import Requirements
from sightword.cluster.opening import opened
from sightword.cluster.workers import Size
from sightword.machine import Machine
from sightword.retrieval.inputs import Embeddings
from sightword.retrieval.parts import Parts, cut, seconds
from sightword.retrieval.ranks import Part, Ranks, Scoring, prepare, rank, rank_part, tile_side
from sightword.retrieval.similarity import similarity as similarity_named

log = logging.getLogger(__name__)

WORTH_IT = 40.0
"""Seconds of one core from which a cluster pays: less is ranked here while workers would start."""
Piece = tuple[slice, NDArray[np.float64] | None]
"""A part, and the scores below which its captions are in no picture's list."""

_MAPPED = ("images", "captions")
_READ = ("image_squares", "caption_squares", "owner", "caption_bars", "image_bars")


def rank_on_cluster(
    image_embeddings: NDArray[np.generic],
    caption_embeddings: NDArray[np.generic],
    image_of_caption: NDArray[np.int64],
    similarity: str = "cosine",
    *,
    top: int = 0,
    machine: Machine,
    device: torch.device | None = None,
    folder: Path,
) -> Ranks:
    """Return what :func:`sightword.retrieval.ranks.rank` returns, computed by a cluster where that pays.

    Args:
        image_embeddings: (N, D) finite numbers.
        caption_embeddings: (M, D) finite numbers.
        image_of_caption: (M,) the row of each caption's picture.
        similarity: as in :func:`~sightword.retrieval.ranks.rank`.
        top: the number of best candidates to keep for each query.
        machine: the size of a worker, and of a local cluster.
        device: the device of this process, for little work; the CPU by default.
        folder: a folder that all nodes see, for a temporary copy of the embeddings.

    Raises:
        ScoringError: as :func:`~sightword.retrieval.ranks.rank`.
        SetupError: there is no cluster, or it cannot do this work.
        OSError: the copy cannot be written.
    """
    there = torch.device("cuda" if machine.ray_gpus else "cpu")
    size = Size(machine.ray_cpus, machine.ray_gpus)
    side, (pictures, dimensions) = tile_side(there), image_embeddings.shape
    if seconds(len(caption_embeddings), pictures, dimensions) < WORTH_IT:
        given = image_embeddings, caption_embeddings, image_of_caption, similarity
        return rank(*given, top=top, device=device, progress=True)
    cuts = cut(len(caption_embeddings), pictures, dimensions, side)
    scoring = prepare(image_embeddings, caption_embeddings, image_of_caption, similarity)
    parts = Parts(scoring, top)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".scoring-", suffix=".tmp") as name, opened(machine) as cluster:
        requirements = Requirements.here(write_scoring(Path(name), scoring))
        cluster.check(requirements, size)
        log.info("retrieval: %s, with room for %d workers", cluster, cluster.slots(size))
        here = replace(machine, device=there.type, threads=machine.ray_cpus)
        make = functools.partial(Worker, Path(name), similarity, top, here)
        pieces = ((rows, parts.least()) for rows in cuts)  # each is made when a worker has room
        actors = Actors[Piece, Part](cluster, make, pieces, size=size, requirements=requirements)
        across = -(-pictures // side)
        total = across * -(-len(caption_embeddings) // side)
        with tqdm(total=total, desc="scoring", unit="tile", disable=None) as bar:
            for part in actors.run():
                parts.add(part)
                bar.update(across * -(-len(part.caption_to_image) // side))
        took = time.perf_counter() - actors.began
    log.info("retrieval: %.1f s for %d parts, at most %d at a time", took, len(cuts), actors.most)
    return parts.ranks()


def write_scoring(folder: Path, scoring: Scoring) -> list[str]:
    """Write into a folder what :func:`read_scoring` reads, and return the files; OSError of the file system."""
    arrays: tuple[NDArray[Any], ...] = (
        *(scoring.images.matrix, scoring.captions.matrix, scoring.images.squares, scoring.captions.squares),
        *(scoring.owner, scoring.caption_bars, scoring.image_bars),
    )
    paths = [folder / f"{name}.npy" for name in (*_MAPPED, *_READ)]
    for path, values in zip(paths, arrays, strict=True):
        try:
            np.save(path, values)
        except OSError as error:
            if error.errno is None:  # NumPy tells a full disk by the bytes that it could write
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
            raise
    return [str(path) for path in paths]


def read_scoring(folder: Path, similarity: str, device: torch.device) -> Scoring:
    """Map the embeddings of :func:`write_scoring`, and read the rest."""
    images, captions = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in _MAPPED)
    image_squares, caption_squares, *rest = (np.load(folder / f"{name}.npy") for name in _READ)
    sides = Embeddings(images, image_squares, "pictures"), Embeddings(captions, caption_squares, "captions")
    owner, caption_bars, image_bars = rest
    return Scoring(*sides, owner, similarity_named(similarity, *sides, device), caption_bars, image_bars)


class Worker:
    """Ranks parts on a worker; SetupError if the device does not exist."""

    def __init__(self, folder: Path, similarity: str, top: int, machine: Machine) -> None:
        self._scoring, self._top = read_scoring(folder, similarity, devices.use(machine)), top

    def __call__(self, piece: Piece) -> Part:
        """Return what the captions of a part give."""
        part, least = piece
        return rank_part(self._scoring, part, top=self._top, least=least)
