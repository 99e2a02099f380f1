"""The losses of captions and pictures (Bordes et al. 2019, section 3.2).

Rows are pictures of a batch. ``same`` is bool (B, B), true where two rows have the same picture or copies of it, the
diagonal included: such rows are not mismatches of each other.
"""

from __future__ import annotations

import torch

from sightword.grounded.training.settings import TEN, NegativesName, PairsName, SimilarityName
from sightword.model.losses import infonce
from sightword.model.similarity import unit


def cosines(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the cosine (B, N) of each row of (B, D) with each row of (N, D), in float32 or float64."""
    return unit(left, "cosine") @ unit(right, "cosine").T


def mismatches(same: torch.Tensor, negatives: NegativesName, draws: torch.Tensor) -> torch.Tensor:
    """Return the weights float (B, B) of the mismatches in a loss: row i is compared with column j.

    ``one``: 1 for one mismatch of each row, drawn evenly. ``all``: 1 for all mismatches. ``last_ten``: 1 for those of
    the last ten rows, in all rows before them.

    Args:
        same: bool (B, B), see above.
        negatives: the rule.
        draws: float (B, B), random and not negative: ``one`` takes the largest of a row's mismatches.
    """
    others = ~same
    if negatives == "one":
        chosen = draws.masked_fill(same, -1.0).argmax(dim=1, keepdim=True)
        return (others & (torch.arange(len(same), device=same.device) == chosen)).to(torch.float32)
    if negatives == "last_ten":
        others = others.clone()
        others[:, :-TEN] = False
        others[-TEN:] = False
    return others.to(torch.float32)


def ranked(
    scores: torch.Tensor, same: torch.Tensor, draws: torch.Tensor, *, margin: float, negatives: NegativesName
) -> torch.Tensor:
    """Return the max-margin loss of right pairs on the diagonal against mismatches (equation 2, and the CM baseline).

    ``one``: the mean over rows of ``[margin - s_ii + s_ij]+`` for one mismatch j of row i. ``all``: the mean over rows
    of the sum over all mismatches j, half of ``[margin - s_ii + s_ij]+`` and half of ``[margin - s_ii + s_ji]+``.
    ``last_ten``: the same with the last ten rows as the mismatches of the other rows (released code). Rows without a
    mismatch do not count; without any counted row the loss is 0.

    Args:
        scores: float (B, B), similarity of the left side of row i and the right side of row j.
        same: bool (B, B), see above.
        draws: float (B, B), see :func:`mismatches`.
        margin: gamma.
        negatives: the rule.
    """
    weights = mismatches(same, negatives, draws).to(scores.dtype)
    right = scores.diagonal()[:, None]
    cost = (margin - right + scores).clamp(min=0)
    if negatives != "one":
        cost = (cost + (margin - right + scores.T).clamp(min=0)) / 2
    counted = (weights.sum(dim=1) > 0).sum()
    return (cost * weights).sum() / counted.clamp(min=1)


def cluster(
    left: torch.Tensor,
    right: torch.Tensor,
    same: torch.Tensor,
    draws: torch.Tensor,
    *,
    margin: float,
    negatives: NegativesName,
    temperature: float | None = None,
) -> torch.Tensor:
    """Return the cluster loss (equation 2) of two captions of each picture.

    Args:
        left: float (B, D), a caption of each picture in the grounded space.
        right: float (B, D), another caption of each picture.
        same: bool (B, B), see above.
        draws: float (B, B), see :func:`mismatches`.
        margin: gamma.
        negatives: see :func:`ranked`.
        temperature: None for equation 2; else the divisor of the cosines in InfoNCE over the batch.
    """
    scores = cosines(left, right)
    if not len(scores):
        return scores.sum()
    if temperature is not None:
        return infonce(scores, same, temperature=scores.new_tensor(temperature), reduction="mean")
    return ranked(scores, same, draws, margin=margin, negatives=negatives)


def perceptual(
    sentences: torch.Tensor, pictures: torch.Tensor, *, pairs: PairsName, similarity: SimilarityName
) -> torch.Tensor:
    """Return the perceptual loss (equation 3): minus Pearson's correlation of the cosines of pairs of rows.

    Args:
        sentences: float (B, D), a caption of each picture in the grounded space.
        pictures: float (B, F), the features of each picture.
        pairs: ``off_diagonal``, each two rows once; or ``matrix``, all B x B (released code).
        similarity: ``pearson``; ``l1`` or ``l2``: the mean absolute or squared difference of the cosines, each side
            less its mean (released code).

    Returns:
        A scalar; NaN for ``pearson`` if all cosines of one side are equal.
    """
    ours, theirs = cosines(sentences, sentences), cosines(pictures, pictures)
    if pairs == "off_diagonal":
        upper, to = torch.triu_indices(len(ours), len(ours), offset=1, device=ours.device)
        ours, theirs = ours[upper, to], theirs[upper, to]
    ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    if similarity == "l1":
        return (ours - theirs).abs().mean()
    if similarity == "l2":
        return (ours - theirs).square().mean()
    return -(ours * theirs).sum() / (ours.square().sum() * theirs.square().sum()).sqrt()
