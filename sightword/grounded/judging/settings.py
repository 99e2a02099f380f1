"""The sections ``evaluate`` and ``report`` of ``grounded/params.yaml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from sightword.evaluation.semantics.settings import TASKS, known_once
from sightword.settings import MAX_SEED, Settings

Split = Literal["train", "dev", "test"]
TRANSFER = ("MR", "CR", "SUBJ", "MPQA", "MRPC", "SST2", "SNLI", "SICKEntailment")
"""The tasks of the published mean, in the order of Table 3 of Bordes et al. (2019)."""

FEWEST = 100
"""Resamples that have an interval, at least."""


class JudgeSettings(Settings):
    """How an encoder of grounded spaces is judged."""

    splits: list[Split] = Field(default=["dev", "test"], min_length=1)
    """The splits of the pictures on which the structure is measured; the first one is that of the tables (published:
    COCO's validation set)."""
    resamples: int = Field(default=1000, ge=0)
    """Resamples of the pictures, for the intervals of the structure and for its paired tests: 100 or more, or 0 for
    none."""
    data: str = "data/raw/senteval"
    """The folder that holds SentEval's ``downstream/``."""
    tasks: list[str] = Field(default=list(TASKS))
    """Tasks of relatedness, by the cosine: ``STS12`` to ``STS16``, ``STSBenchmark`` (its test pairs, by genre too),
    ``SICKRelatedness``, and your sets."""
    transfer: list[str] = Field(default=["MR", "CR", "SUBJ", "MPQA", "MRPC", "SST2", "SNLI", "SICKEntailment"])
    """SentEval's transfer tasks, by its logistic regression on vectors of the sentence encoder (as the paper, it
    seems); the published mean is over these eight accuracies."""
    missing: Literal["error", "skip"] = "error"
    """A task whose files do not exist: stop, or leave the task out and name it in the metrics."""
    kfold: int = Field(default=5, ge=2)
    """Folds of the cross-validation in MR, CR, SUBJ, MPQA and MRPC."""
    ratings: str = ""
    """A file of concreteness ratings (Brysbaert et al. 2014) below ``data/raw/ratings``; empty for none."""
    neighbours: list[str] = Field(default=[])
    """Sentences whose nearest captions are listed."""
    seed: int = Field(default=1111, ge=0, le=MAX_SEED)
    """The seed of the resamples and the classifiers; 1111 is SentEval's."""

    @field_validator("resamples")
    @classmethod
    def _enough(cls, value: int) -> int:
        if 0 < value < FEWEST:
            raise ValueError(f"too few for an interval; {FEWEST} or more, or 0 for none")
        return value

    @field_validator("splits")
    @classmethod
    def _each_once(cls, value: list[Split]) -> list[Split]:
        if len(set(value)) < len(value):
            raise ValueError("a split is named twice")
        return value

    @field_validator("tasks")
    @classmethod
    def _tasks(cls, value: list[str]) -> list[str]:
        return known_once(value)

    @field_validator("transfer")
    @classmethod
    def _transfer(cls, value: list[str]) -> list[str]:
        if wrong := [name for name in value if name not in TRANSFER]:
            raise ValueError(f"no such transfer task: {wrong[0]!r} (accepted: {', '.join(TRANSFER)})")
        return known_once(value, classification=True)

    @field_validator("neighbours")
    @classmethod
    def _texts(cls, value: list[str]) -> list[str]:
        if len({text.strip().lower() for text in value} - {""}) < len(value):
            raise ValueError("an entry is empty or comes twice")
        return value


class GroundedSettings(Settings):
    """How the scenarios are compared, and what the page shows."""

    title: str = "The grounded space"
    """The title of the page."""
    baseline: str = "t"
    """The scenario that the others are compared with, one of ``train.scenarios``; the first one that runs, if this one
    does not."""
    resamples: int = Field(default=1000, ge=100)
    """Resamples of the sentence pairs, for intervals and tests of relatedness."""
