"""The section ``semantics`` of ``params.yaml``."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from pipeline.settings import MAX_SEED, Settings

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICKRelatedness")
"""The tasks of Merkx & Frank (2019)."""


class SemanticsSettings(Settings):
    """How the encoder is judged by semantic similarity."""

    data: str = "data/raw/senteval"
    """The folder that holds SentEval's ``downstream/``."""
    tasks: list[str] = Field(default=list(TASKS), min_length=1)
    """Which tasks: ``STS12`` to ``STS16`` with SentEval's subtasks, ``STSBenchmark``, ``SICKRelatedness``, and any
    other ``STS...`` name of a set of one's own in ``downstream/STS/NAME-en-test/``."""
    missing: Literal["error", "skip"] = "error"
    """A task whose files are not there: stop, or leave it out and name it in the metrics."""
    trained_head: bool = True
    """Judge STSBenchmark and SICKRelatedness by SentEval's trained head too, not by the cosine alone."""
    seed: int = Field(default=1111, ge=0, le=MAX_SEED)
    """The seed of the trained head; 1111 is SentEval's."""
    batch_size: int = Field(default=256, ge=1)
    """Sentences encoded together."""
    plot_pairs: int = Field(default=2000, ge=0)
    """How many pairs the plot of cosines against gold scores shows at most; they are taken evenly."""

    @field_validator("tasks")
    @classmethod
    def _known_once(cls, value: list[str]) -> list[str]:
        return known_once(value)


def known_once(tasks: list[str]) -> list[str]:
    """The names of tasks as they are.

    Raises:
        ValueError: one is no task's name, or is there twice.
    """
    for name in tasks:
        if name != "SICKRelatedness" and not re.fullmatch(r"STS[\w.-]+", name):
            raise ValueError(
                f"no such task: {name!r} (accepted: SICKRelatedness, STSBenchmark, STS12 and other STS...)"
            )
    if len(set(tasks)) != len(tasks):
        raise ValueError("a task is named twice")
    return tasks
