"""The objectives, over the mismatched pairs of a minibatch.

``scores`` holds the similarity of caption i and picture j, float (B, B), with the pairs on the diagonal. ``same`` is
bool (B, B), true where caption i describes picture j as well (the diagonal included): such a pair is not a mismatch.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn import functional as F

Reduction = Literal["mean", "sum"]


def hinge(scores: torch.Tensor, same: torch.Tensor, *, margin: float, reduction: Reduction) -> torch.Tensor:
    """Return the hinge loss of Merkx & Frank (2019), section 3.1.2, in both directions.

    For caption i of picture i and every other picture j: ``max(0, margin - s(c_i, p_i) + s(c_i, p_j))``, and the same
    with other captions.

    Args:
        scores: see above.
        same: see above.
        margin: difference by which a pair must score above a mismatch.
        reduction: ``sum`` over all pairs (the paper), or the ``mean`` over B * B with the diagonal counted as zero (the
            released code). Gradient clipping depends on this scale.
    """
    other_pictures, other_captions = _violations(scores, same, margin)
    cost = other_pictures + other_captions
    return cost.sum() if reduction == "sum" else cost.mean()


def hardest(scores: torch.Tensor, same: torch.Tensor, *, margin: float, reduction: Reduction) -> torch.Tensor:
    """Return the hinge loss of the hardest mismatch of each caption and picture (VSE++, Faghri et al. 2018, eq. 6).

    Args:
        scores: see above.
        same: see above.
        margin: difference by which a pair must score above its hardest mismatch.
        reduction: ``sum`` over the batch (the released code), or the ``mean`` over its B pairs.
    """
    other_pictures, other_captions = _violations(scores, same, margin)
    cost = other_pictures.amax(dim=1) + other_captions.amax(dim=0)  # (B,)
    return cost.sum() if reduction == "sum" else cost.mean()


def infonce(
    scores: torch.Tensor, same: torch.Tensor, *, temperature: torch.Tensor, reduction: Reduction
) -> torch.Tensor:
    """Return symmetric InfoNCE: the cross-entropy of the right picture, and of the right caption, in the batch.

    As in CLIP (Radford et al. 2021, figure 3), with the mean of the two directions.

    Args:
        scores: see above.
        same: see above.
        temperature: the divisor of the scores, a scalar above zero.
        reduction: ``mean`` over the B pairs, or ``sum``.
    """
    diagonal = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    logits = (scores / temperature).masked_fill(same & ~diagonal, float("-inf"))
    right = torch.arange(len(scores), device=scores.device)
    both = F.cross_entropy(logits, right, reduction=reduction) + F.cross_entropy(logits.T, right, reduction=reduction)
    return both / 2


def _violations(scores: torch.Tensor, same: torch.Tensor, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the violation of the margin, (B, B), by other pictures for caption i and other captions for picture j."""
    right = scores.diagonal()
    other_pictures = (margin - right[:, None] + scores).clamp(min=0).masked_fill(same, 0.0)
    other_captions = (margin - right[None, :] + scores).clamp(min=0).masked_fill(same, 0.0)
    return other_pictures, other_captions
