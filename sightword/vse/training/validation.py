"""Recall on dev during training, with the ties of :func:`sightword.evaluation.retrieval.protocols.score`."""

from __future__ import annotations

import torch

from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.model.embedding import embed_captions, embed_images
from sightword.model.encoders import Encoders
from sightword.model.shape import SimilarityName
from sightword.model.similarity import errors, tie_width, unit

DIRECTIONS = ("caption_to_image", "image_to_caption")
DEPTHS = (1, 5, 10)

Recall = dict[str, dict[str, float]]
"""For each direction ``r1``, ``r5`` and ``r10`` in percent, and ``mean_rank``."""

_NUMBERS = 1 << 22
"""Largest number of scores, or of coordinates, computed together."""


def validate(encoders: Encoders, pairs: Pairs, similarity: SimilarityName) -> Recall:
    """Rank all pictures of a split for each caption, and all captions for each picture.

    Embeddings are float32 whatever the precision of training, as the saved encoder computes them; scores are float64.
    Ties count against the right answer; the rank of a picture is the best rank of its own captions.

    Raises:
        TrainingError: an embedding is not finite.
    """
    sides = embed_images(encoders.images, pairs.features), embed_captions(encoders.captions, pairs.ids)
    images, captions = (torch.from_numpy(side).to(encoders.device).double() for side in sides)
    owner = torch.from_numpy(pairs.image_of_caption).to(encoders.device)
    found = {}
    for direction, ranks in zip(DIRECTIONS, _ranks(captions, images, owner, similarity), strict=True):
        found[direction] = {f"r{k}": 100.0 * int((ranks <= k).sum()) / len(ranks) for k in DEPTHS}
        found[direction]["mean_rank"] = float(ranks.double().mean())
    return found


@torch.no_grad()
def _ranks(
    captions: torch.Tensor, images: torch.Tensor, owner: torch.Tensor, similarity: SimilarityName
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rank of the right answer to each caption (M,) and to each picture (N,), from 1.

    Captions are float64 (M, D), images float64 (N, D); owner is int64 (M,), the row of each caption's picture.
    """
    cosine, dimensions = similarity == "cosine", images.shape[1]
    if cosine:
        images, captions = unit(images, similarity), unit(captions, similarity)
    elif similarity == "reversed_order":
        images, captions = -images, -captions  # max(0, i - c) is max(0, (-c) - (-i))

    def paired(captions: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        return (captions * images).sum(dim=1) if cosine else -(captions - images).relu().square().sum(dim=1)

    def bar(own: torch.Tensor) -> torch.Tensor:
        return own - tie_width(dimensions) * (1.0 if cosine else own.abs())

    blocks = _blocks(len(captions), max(1, _NUMBERS // dimensions))
    own = torch.cat([paired(captions[rows], images[owner[rows]]) for rows in blocks])
    if not own.isfinite().all():
        todo = "Lower train.rate_max, or look at the features' values."
        raise TrainingError("embeddings of dev are not finite", todo=todo)
    best = own.new_full((len(images),), -torch.inf).scatter_reduce(0, owner, own, "amax")
    of_captions, rivals = [], torch.zeros_like(best, dtype=torch.int64)
    for rows in _blocks(len(captions), max(1, _NUMBERS // len(images))):
        if cosine:
            table = captions[rows] @ images.T
        else:
            table = images.new_empty(len(captions[rows]), len(images))
            errors(captions[rows], images, table)
            table.neg_()
        table.scatter_(1, owner[rows, None], -torch.inf)  # the right answer is not its own rival
        of_captions.append(1 + (table >= bar(own[rows, None])).sum(dim=1))
        rivals += (table >= bar(best)).sum(dim=0)
    return torch.cat(of_captions), 1 + rivals


def _blocks(count: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, count, size)]
