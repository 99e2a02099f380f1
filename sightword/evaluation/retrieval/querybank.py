"""Query bank normalisation: a candidate that is near to many queries of a bank is scored lower.

Some candidates, called hubs, are among the nearest neighbours of many queries. The inverted softmax (Smith et al. 2017)
takes the softmax of a candidate's scores over queries, here over a bank of training captions and pictures (Bogolin et
al. 2022). No query of the scored split plays a part in the scores of another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from sightword.captions.table import CaptionTable
from sightword.errors import CaptionsError, ScoringError
from sightword.evaluation.retrieval.ranks import tiles
from sightword.evaluation.retrieval.similarity import Similarity, embeddings, rows_at_once, similarity
from sightword.features.tables.table import FeatureTable

COLDEST, HOTTEST = 0.001, 10
"""The lowest temperature, where the softmax is nearly the maximum, and the highest, where it is nearly the mean. The
error of an offset grows with the temperature: above some hundreds, equal scores become unequal."""
_WITHOUT = "Leave querybank out of retrieval.protocols."


def with_querybank(
    caption_embeddings: ArrayLike,
    image_embeddings: ArrayLike,
    bank_captions: ArrayLike,
    bank_images: ArrayLike,
    *,
    temperature: float = 0.05,
    device: torch.device | None = None,
    progress: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return embeddings of captions and pictures whose dot product is their cosine less two offsets from the bank.

    The dot product of caption c and picture i is ``cos(c, i) - o(i) - o(c)``, where ``o(i)`` is
    ``t log mean_b exp(cos(b, i) / t)`` over the captions b of the bank at the temperature t, and ``o(c)`` the same over
    its pictures. For a given query one of the two is constant, so the order of the candidates is that of the inverted
    softmax (Smith et al. 2017) in both directions.

    Args:
        caption_embeddings: (M, D) finite numbers.
        image_embeddings: (N, D) finite numbers.
        bank_captions: (C, D) captions that ask for pictures, of another split.
        bank_images: (B, D) pictures that ask for captions, of another split.
        temperature: t, in the unit of the cosine, from 0.001 to 10.
        device: the device that computes the cosines; the CPU by default.
        progress: show a progress bar on a terminal.

    Returns:
        (M, D + 2) and (N, D + 2), for the similarity "dot" (:func:`sightword.evaluation.retrieval.protocols.score`).

    Raises:
        ScoringError: values that are not finite, sides with different dimensions, or a temperature out of its range.
    """
    if not COLDEST <= temperature <= HOTTEST:
        raise ScoringError(f"the temperature is {temperature!r}", expected=f"a number from {COLDEST} to {HOTTEST}")
    captions = embeddings(caption_embeddings, "caption_embeddings")
    images = embeddings(image_embeddings, "image_embeddings")
    asking_captions, asking_images = embeddings(bank_captions, "bank_captions"), embeddings(bank_images, "bank_images")
    for side in (images, asking_captions, asking_images):
        if side.dimensions != captions.dimensions:
            what = f"has {side.dimensions} dimensions, the captions have {captions.dimensions}"
            raise ScoringError(what, where=side.name, expected="the same number of dimensions")
    here = device or torch.device("cpu")
    of_images = similarity("cosine", asking_captions, images, here)
    of_captions = similarity("cosine", captions, asking_images, here)
    off_images = _log_mean_exp(of_images, temperature, over="captions", progress=progress)
    off_captions = _log_mean_exp(of_captions, temperature, over="images", progress=progress)
    return (
        _widened(of_captions.captions, np.ones(len(captions)), -off_captions),
        _widened(of_images.images, -off_images, np.ones(len(images))),
    )


def bank(features: FeatureTable, captions: CaptionTable, most: int) -> tuple[NDArray[np.float32], list[str]]:
    """Return the features (B, D) of training pictures that could be decoded, and the first caption of each.

    Of more pictures than ``most``, evenly spaced ones are taken, in the order of their ids. CaptionsError if there are
    none.
    """
    try:
        training = captions.split("train")
    except CaptionsError as error:
        raise CaptionsError("the split 'train' has no captions for the query bank", todo=_WITHOUT) from error
    first: dict[str, int] = {}
    for row, image_id in enumerate(training.image_ids):
        if image_id not in features.rejected:
            first.setdefault(image_id, row)
    if not first:
        raise CaptionsError("no picture of the split 'train', the query bank, could be decoded", todo=_WITHOUT)
    ids, count = sorted(first), min(most, len(first))
    chosen = [ids[number * len(ids) // count] for number in range(count)]
    return features.features[features.rows(chosen)], [training.texts[first[image_id]] for image_id in chosen]


def _log_mean_exp(alike: Similarity, temperature: float, *, over: str, progress: bool) -> NDArray[np.float64]:
    """Return ``t log mean exp(score / t)`` of each picture over the captions, or of each caption over the pictures."""
    queries, rows = alike.counts if over == "captions" else alike.counts[::-1]
    logs = torch.full((rows,), -torch.inf, dtype=torch.float64, device=alike.device)
    with torch.inference_mode():
        for captions, images, scores in tiles(alike, progress=progress):
            which, side = (images, 0) if over == "captions" else (captions, 1)
            logs[which] = torch.logaddexp(logs[which], torch.logsumexp(scores / temperature, dim=side))
    return (temperature * (logs - math.log(queries))).cpu().numpy()


def _widened(rows: Callable[[slice], torch.Tensor], *columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows, which are given in blocks, with more columns."""
    count, width = len(columns[0]), rows(slice(0, 1)).shape[1]
    wide = np.empty((count, width + len(columns)))
    step = rows_at_once(width)
    for start in range(0, count, step):
        block = slice(start, start + step)
        wide[block, :width] = rows(block).cpu().numpy()
    wide[:, width:] = np.column_stack(columns)
    return wide
