"""The section ``epochs`` of ``params.yaml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from sightword.evaluation.semantics.settings import TASKS, known_once
from sightword.settings import Settings


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
    batch_size: int = Field(default=256, ge=1)
    """Sentences encoded together."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """``bf16``: sentences are encoded in bfloat16; faster on a CPU or GPU with units for it, other last digits."""

    @field_validator("tasks")
    @classmethod
    def _known_once(cls, value: list[str]) -> list[str]:
        return known_once(value)
