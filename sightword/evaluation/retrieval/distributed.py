"""Ranks computed by the workers of a cluster, each of which takes some captions at a time, and all pictures."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.cluster.actors import Actors
from sightword.cluster.nodes import Requirements
from sightword.cluster.opening import opened
from sightword.cluster.workers import Cluster, Size
from sightword.compute import devices
from sightword.evaluation.retrieval.inputs import Embeddings
from sightword.evaluation.retrieval.parts import Parts, cut, seconds
from sightword.evaluation.retrieval.ranks import PartialRanks, Ranks, Scoring, prepare, rank, rank_part, tile_side
from sightword.evaluation.retrieval.similarity import similarity as similarity_named
from sightword.machine import Machine
from sightword.messages import plural

log = logging.getLogger(__name__)

WORTH_IT = 40.0
"""Seconds of this machine from which a cluster pays: less is ranked here while workers would start."""
Piece = tuple[slice, NDArray[np.float64] | None]
"""A part, and the scores below which its captions are in no picture's list."""

_MAPPED = ("images", "captions")
_READ = ("image_squares", "caption_squares", "owner", "caption_bars", "image_bars")


@contextlib.contextmanager
def ranker(
    machine: Machine,
    *,
    captions: int,
    pictures: int,
    dimensions: int,
    rankings: int = 1,
    device: torch.device | None = None,
    folder: Path,
) -> Iterator[Callable[..., Ranks]]:
    """Yield a function that ranks as :func:`sightword.evaluation.retrieval.ranks.rank` does: on a cluster where that
    pays.

    Args:
        machine: the engine, and the size of a worker and of a local cluster.
        captions: M, the number of captions.
        pictures: N, the number of pictures.
        dimensions: D, of the embeddings.
        rankings: how many times the function will rank so many captions and pictures.
        device: the device of this process, for little work; the CPU by default.
        folder: a folder that all nodes see, for a temporary copy of the embeddings.

    Raises:
        SetupError: there is no cluster, or it cannot do this work.
    """
    if machine.engine != "ray" or rankings * seconds(captions, pictures, dimensions) / machine.threads < WORTH_IT:
        yield functools.partial(rank, device=device, progress=True)
        return
    size = Size(machine.ray_cpus, machine.ray_gpus)
    with opened(machine) as cluster:
        log.info("retrieval: %s, with room for %s", cluster, plural(cluster.slots(size), "worker"))
        yield functools.partial(_rank_on_cluster, cluster, machine, folder)


def _rank_on_cluster(
    cluster: Cluster,
    machine: Machine,
    folder: Path,
    image_embeddings: NDArray[np.generic],
    caption_embeddings: NDArray[np.generic],
    image_of_caption: NDArray[np.int64],
    similarity: str = "cosine",
    *,
    top: int = 0,
) -> Ranks:
    """Return what :func:`sightword.evaluation.retrieval.ranks.rank` returns; OSError if the copy cannot be written."""
    there = torch.device("cuda" if machine.ray_gpus else "cpu")
    size = Size(machine.ray_cpus, machine.ray_gpus)
    side, (pictures, dimensions) = tile_side(there), image_embeddings.shape
    cuts = cut(len(caption_embeddings), pictures, dimensions, side)
    scoring = prepare(image_embeddings, caption_embeddings, image_of_caption, similarity)
    parts = Parts(scoring, top)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".scoring-", suffix=".tmp") as name:
        requirements = Requirements.here(write_scoring(Path(name), scoring))
        here = replace(machine, device=there.type, threads=machine.ray_cpus)
        make = functools.partial(Worker, Path(name), similarity, top, here)
        pieces = ((rows, parts.least()) for rows in cuts)  # each is made when a worker has room
        actors = Actors[Piece, PartialRanks](
            cluster, make, pieces, count=len(cuts), size=size, requirements=requirements
        )
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

    def __call__(self, piece: Piece) -> PartialRanks:
        """Return what the captions of a part give."""
        part, least = piece
        return rank_part(self._scoring, part, top=self._top, least=least)
