"""Query bank normalisation: a candidate that is near to many training queries is scored lower.

Some candidates, called hubs, are among the nearest neighbours of many queries. The inverted softmax (Smith et al. 2017)
takes the softmax of a candidate's scores over a bank of queries: here training captions and pictures, as in QB-Norm
(Bogolin et al. 2022). QB-Norm's code normalises only the scores of queries whose first candidate is also the first of a
query of the bank; here all scores are normalised. No query of the scored split plays a part in the scores of another.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from sightword.errors import ScoringError
from sightword.retrieval.inputs import Embeddings, embeddings
from sightword.retrieval.similarity import of_length_1

PICTURES = 10_000
"""The most training pictures of the stage's bank, each with one caption."""
TEMPERATURE = 1 / 20
"""As in QB-Norm's code, in the unit of the cosine."""
_BLOCK = 1024


def with_querybank(
    image_embeddings: ArrayLike,
    caption_embeddings: ArrayLike,
    bank_images: ArrayLike,
    bank_captions: ArrayLike,
    *,
    temperature: float = TEMPERATURE,
    device: torch.device | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return embeddings of pictures and captions whose dot product is their cosine less what the bank takes off.

    The dot product of caption c and picture i is ``cos(c, i) - o(i) - o(c)``, where ``o(i)`` is
    ``t log mean_b exp(cos(b, i) / t)`` over the captions b of the bank at the temperature t, and ``o(c)`` the same over
    its pictures. For a given query one of the two is constant, so the order of the candidates is that of the inverted
    softmax, in both directions.

    Args:
        image_embeddings: (N, D) finite numbers.
        caption_embeddings: (M, D) finite numbers.
        bank_images: (B, D) pictures that ask for captions, of another split.
        bank_captions: (C, D) captions that ask for pictures, of another split.
        temperature: t, above 0.
        device: the device that computes the cosines; the CPU by default.

    Returns:
        (N, D + 2) and (M, D + 2), for the similarity "dot" (:func:`sightword.retrieval.protocols.score`).

    Raises:
        ScoringError: values that are not finite, or sides with different dimensions.
    """
    given = {
        "image_embeddings": image_embeddings,
        "caption_embeddings": caption_embeddings,
        "bank_images": bank_images,
        "bank_captions": bank_captions,
    }
    sides = {name: embeddings(values, name) for name, values in given.items()}
    widths = {name: side.dimensions for name, side in sides.items()}
    if len(set(widths.values())) > 1:
        raise ScoringError(f"the dimensions are {widths}", expected="the same number of dimensions")
    images, captions, bank_images, bank_captions = (_unit(side) for side in sides.values())
    off_images = _offsets(images, bank_captions, temperature, device or torch.device("cpu"))
    off_captions = _offsets(captions, bank_images, temperature, device or torch.device("cpu"))
    return (
        np.column_stack([images, -off_images, np.ones(len(images))]),
        np.column_stack([captions, np.ones(len(captions)), -off_captions]),
    )


def bank_rows(image_of_caption: NDArray[np.int64], most: int = PICTURES) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of a bank's pictures, and of the first caption of each.

    Args:
        image_of_caption: (M,) the row of each caption's picture; each picture has a caption.
        most: the largest number of pictures; of more pictures, evenly spaced ones are taken.
    """
    pictures, first = np.unique(image_of_caption, return_index=True)
    chosen = np.arange(min(most, len(pictures))) * len(pictures) // min(most, len(pictures))
    return pictures[chosen], first[chosen]


def _unit(side: Embeddings) -> NDArray[np.float64]:
    return of_length_1(side).rows(slice(None))


def _offsets(
    candidates: NDArray[np.float64], bank: NDArray[np.float64], temperature: float, device: torch.device
) -> NDArray[np.float64]:
    """Return ``t log mean_b exp(cos / t)`` (n,) of each candidate over the bank, in blocks."""
    rows, queries = (torch.from_numpy(values).to(device) for values in (candidates, bank))
    found = torch.empty(len(rows), dtype=torch.float64, device=device)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        parts = [
            torch.logsumexp(rows[block] @ queries[first : first + _BLOCK].T / temperature, dim=1)
            for first in range(0, len(queries), _BLOCK)
        ]
        found[block] = torch.logsumexp(torch.stack(parts), dim=0)
    return (temperature * (found - math.log(len(queries)))).cpu().numpy()
