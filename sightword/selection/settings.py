"""The section ``select`` of the parameters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sightword.settings import Settings


class SelectSettings(Settings):
    """How snapshots are chosen; defaults are those of Merkx & Frank (2019), section 3.4."""

    split: Literal["dev", "train"] = "dev"
    """The split they are compared on; never test (``train`` shows what was learned by heart)."""
    criterion: Literal["mean_r10", "caption_to_image_rsum", "rsum"] = "mean_r10"
    """What makes one better: the mean recall@10 of both directions; R@1 + R@5 + R@10 of caption to image
    (order-embeddings); or that sum over both directions (VSE++)."""
    candidates: Literal["cycle", "all"] = "cycle"
    """Which snapshots are compared where every epoch was kept: those at the ends of cycles (the paper), or all."""
    members: int = Field(2, ge=1)
    """Snapshots in the ensemble, the best ones (the paper: two)."""
    renormalise: bool = False
    """Bring the sum of the members' embeddings back to length 1, and compare captions with pictures by the cosine.
    ``false``, as in the released code, compares by the dot product: members that agree give a long sum, and a long sum
    scores higher. With one member both are the same."""
