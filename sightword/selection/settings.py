"""The section ``select`` of the parameters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sightword.settings import Settings


class SelectSettings(Settings):
    """The choice of snapshots; the defaults are those of Merkx & Frank (2019), section 3.4."""

    split: Literal["dev", "train"] = "dev"
    """The split to compare on; never test (``train`` shows how much was memorised)."""
    criterion: Literal["mean_r10", "caption_to_image_rsum", "rsum"] = "mean_r10"
    """The score to compare: the mean recall@10 of both directions; R@1 + R@5 + R@10 of caption to image
    (order-embeddings); or that sum over both directions (VSE++)."""
    candidates: Literal["cycle", "all"] = "cycle"
    """The snapshots to compare if every epoch was kept: those at the ends of cycles (the paper), or all."""
    members: int = Field(2, ge=1)
    """Snapshots in the ensemble, the best ones (the paper: two)."""
    renormalise: bool = False
    """Scale the sum of the members' embeddings to length 1, and compare captions with pictures by the cosine.
    ``false``, as in the released code, compares by the dot product: members that agree give a long sum, which scores
    higher. With one member both are the same."""
    beside: list[str] = Field(default_factory=list)
    """Names of encoders of other training runs on the same captions and features, in ``data/raw/encoders``. Their
    embeddings stand behind the ensemble's, all with the same length: the cosine of two embeddings is the mean of the
    cosines of all. The snapshots are chosen without them."""
