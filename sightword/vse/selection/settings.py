"""The sections ``select`` and ``epochs`` of the parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from sightword.evaluation.semantics.settings import TASKS, known_once
from sightword.settings import Settings


class SelectSettings(Settings):
    """The choice of snapshots; the defaults are those of Merkx & Frank (2019), section 3.3."""

    criterion: Literal["mean_r10", "caption_to_image_rsum", "rsum"] = "mean_r10"
    """The score to compare: the mean recall@10 of both directions; R@1 + R@5 + R@10 of caption to image
    (order-embeddings); or that sum over both directions (VSE++)."""
    members: int = Field(2, ge=1)
    """Snapshots in the ensemble, the best ones at the ends of cycles (the paper: two)."""
    renormalise: bool = False
    """Scale the sum of the members' embeddings to length 1, and compare captions with pictures by the cosine.
    ``false``, as in the released code, compares by the dot product; with one member, ``beside`` or ``lexical`` the dot
    product is the cosine."""
    beside: list[str] = Field(default_factory=list)
    """Folders in ``data/raw/beside``, each with ``models/encoder`` of another training run on the same captions and
    features. The cosine of two embeddings is the mean of the encoders' cosines. The snapshots are chosen without the
    other encoders."""

    lexical: int = Field(default=0, ge=0)
    """Numbers of a part of the embedding that is not trained: n-grams of 2 to 4 tokens, weighted by their frequency in
    the training captions and hashed (``train.cell: tfidf``). Pictures have zeros there. 0: no such part."""
    lexical_share: float = Field(default=0.4, gt=0, lt=1)
    """The share of that part in the cosine of two sentences."""

    @field_validator("beside")
    @classmethod
    def _names(cls, names: list[str]) -> list[str]:
        for name in names:
            if name in ("", "..") or name != Path(name).name:
                raise ValueError(f"{name!r} is not the name of a folder in data/raw/beside")
        if len(set(names)) < len(names):
            raise ValueError("a name stands twice")
        return names


class EpochsSettings(Settings):
    """The scores of every kept epoch (``train.snapshots``), for people: nothing is chosen by them."""

    every: int = Field(default=1, ge=1)
    """Measure each N-th kept epoch, counted back from the last one."""
    data: str = "data/raw/senteval"
    """The folder that holds SentEval's ``downstream/``."""
    tasks: list[str] = Field(default=list(TASKS))
    """The tasks, named as in ``semantics.tasks``, each by the cosine alone; with an empty list there is recall only."""
    missing: Literal["error", "skip"] = "error"
    """Stop at a task without files, or leave its column empty."""

    @field_validator("tasks")
    @classmethod
    def _known_once(cls, value: list[str]) -> list[str]:
        return known_once(value)
