"""Ranks computed by the workers of a cluster, each of which takes some captions at a time, and all pictures."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from sightword.cluster.nodes import Requirements
from sightword.cluster.opening import opened
from sightword.cluster.workers import Cluster, Size
from sightword.compute import devices
from sightword.evaluation.retrieval.inputs import Embeddings
from sightword.evaluation.retrieval.parts import Parts, cut, seconds
from sightword.evaluation.retrieval.ranks import PartialRanks, Ranks, Scoring, prepare, rank, rank_part, tile_side
from sightword.evaluation.retrieval.similarity import similarity as similarity_named
from sightword.machine import Machine

log = logging.getLogger(__name__)

WORTH_IT = 40.0
"""Seconds of this machine from which a cluster pays: less is ranked here while workers would start."""
Piece = tuple[slice, NDArray[np.float64] | None]
"""A part, and the scores below which its captions are in no picture's list."""


@contextlib.contextmanager
def ranker(
    machine: Machine,
    *,
    captions: int,
    pictures: int,
    dimensions: int,
    rankings: int = 1,
    device: torch.device | None = None,
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

    Raises:
        SetupError: there is no cluster, or it cannot do this work.
    """
    if machine.engine != "ray" or rankings * seconds(captions, pictures, dimensions) / machine.threads < WORTH_IT:
        yield functools.partial(rank, device=device, progress=True)
        return
    with opened(machine, Size.of(machine)) as cluster:
        yield functools.partial(_rank_on_cluster, cluster, machine.ray_worker)


def _rank_on_cluster(
    cluster: Cluster,
    there: Machine,
    image_embeddings: NDArray[np.generic],
    caption_embeddings: NDArray[np.generic],
    image_of_caption: NDArray[np.int64],
    similarity: str = "cosine",
    *,
    top: int = 0,
) -> Ranks:
    """Return what :func:`sightword.evaluation.retrieval.ranks.rank` returns."""
    side, (pictures, dimensions) = tile_side(torch.device(there.device)), image_embeddings.shape
    cuts = cut(len(caption_embeddings), pictures, dimensions, side)
    scoring = prepare(image_embeddings, caption_embeddings, image_of_caption, similarity)
    parts = Parts(scoring, top)
    make = functools.partial(Worker, similarity, top, there)
    pieces = ((rows, parts.least()) for rows in cuts)  # each is made when a worker has room
    work = cluster.each(make, pieces, count=len(cuts), requirements=Requirements.here([]), shared=shared(scoring))
    across = -(-pictures // side)
    total = across * -(-len(caption_embeddings) // side)
    with tqdm(total=total, desc="scoring", unit="tile", disable=None) as bar:
        for part in work:
            parts.add(part)
            bar.update(across * -(-len(part.caption_to_image) // side))
    took = time.perf_counter() - cluster.began
    log.info("retrieval: %.1f s for %d parts, at most %d at a time", took, len(cuts), cluster.started)
    return parts.ranks()


def shared(scoring: Scoring) -> tuple[Any, ...]:
    """Return what the workers share: arguments of :class:`Worker` after the first ones."""
    return scoring.images, scoring.captions, scoring.owner, scoring.caption_bars, scoring.image_bars


class Worker:
    """Ranks parts on a worker; SetupError if the device does not exist."""

    def __init__(
        self, similarity: str, top: int, machine: Machine, images: Embeddings, captions: Embeddings, *rest: Any
    ) -> None:
        owner, *bars = rest
        alike = similarity_named(similarity, images, captions, devices.use(machine))
        self._scoring, self._top = Scoring(images, captions, owner, alike, *bars), top

    def __call__(self, piece: Piece) -> PartialRanks:
        """Return what the captions of a part give."""
        part, least = piece
        return rank_part(self._scoring, part, top=self._top, least=least)
