"""What training minimises, over all mismatched pairs of a minibatch."""

from __future__ import annotations

from typing import Literal

import torch


def hinge(
    scores: torch.Tensor, same: torch.Tensor, *, margin: float, reduction: Literal["mean", "sum"]
) -> torch.Tensor:
    """The hinge loss of Merkx & Frank (2019), equation 1, both directions.

    For caption i of picture i and every other picture j:
    ``max(0, margin - s(c_i, p_i) + s(c_i, p_j))``, and the same with other captions.

    Args:
        scores: similarity of caption i and picture j, float (B, B); the pairs are on the diagonal.
        same: bool (B, B), true where caption i describes picture j as well (the diagonal
            included): such a pair is no mismatch and counts nothing.
        margin: by how much a pair must score above a mismatch.
        reduction: ``sum`` over all pairs (the paper), or their ``mean`` over B * B with the
            diagonal counted as zero (the released code). The scale matters to clipping.
    """
    right = scores.diagonal()
    other_pictures = (margin - right[:, None] + scores).clamp(min=0)
    other_captions = (margin - right[None, :] + scores).clamp(min=0)
    cost = (other_pictures + other_captions).masked_fill(same, 0.0)
    return cost.sum() if reduction == "sum" else cost.mean()


LOSSES = {"hinge": hinge}
"""The objectives by the names that ``train.loss`` knows."""
