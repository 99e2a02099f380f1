"""The section ``semantics`` of ``params.yaml``."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from sightword.messages import quote
from sightword.settings import MAX_SEED, Settings

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICKRelatedness")
"""The tasks of Merkx & Frank (2019)."""

CLASSIFICATION = ("SICKEntailment", "MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC", "SNLI")
"""SentEval's classification tasks, reported by Bordes et al. (2019) among others."""

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pl", "pt", "ru", "zh", "ja")
"""The languages of STS Benchmark: ``STSBenchmark-de``, and ``STSBenchmark-en-de`` for pairs of two languages."""

ControlName = Literal["tfidf", "untrained"]


class SemanticsSettings(Settings):
    """How the encoder is judged by semantic similarity."""

    data: str = "data/raw/senteval"
    """The folder that holds SentEval's ``downstream/``."""
    tasks: list[str] = Field(default=list(TASKS), min_length=1)
    """Which tasks: ``STS12`` to ``STS16``, ``STSBenchmark``, ``SICKRelatedness``, ``STSBenchmark-de`` (or en, fr, es,
    it, nl, pl, pt, ru, zh, ja), ``STSBenchmark-en-de`` (first sentences English, second German), your set in
    ``downstream/STS/NAME-en-test/``, and the classification tasks ``SICKEntailment``, ``MR``, ``CR``, ``SUBJ``,
    ``MPQA``, ``SST2``, ``TREC``, ``MRPC`` and ``SNLI``."""
    missing: Literal["error", "skip"] = "error"
    """A task whose files are not there: stop, or leave it out and name it in the metrics."""
    trained_head: bool = True
    """Judge STSBenchmark and SICKRelatedness by SentEval's trained head too, not by the cosine alone."""
    kfold: int = Field(default=5, ge=2)
    """Folds of the cross-validation in MR, CR, SUBJ, MPQA, TREC and MRPC; 5 is SentEval's default; its published scores
    have 10."""
    seed: int = Field(default=1111, ge=0, le=MAX_SEED)
    """The seed of the trained head and of the classifiers; 1111 is SentEval's."""
    batch_size: int = Field(default=256, ge=1)
    """Sentences encoded together."""
    controls: list[ControlName] = Field(default=["tfidf", "untrained"])
    """Controls whose scores stand beside the encoder's: ``tfidf``, the cosine of n-grams of characters, weighted by
    their frequency in the training captions; and ``untrained``, the same network with random weights (the seed is
    ``seed``), by cosines and accuracies."""

    @field_validator("tasks")
    @classmethod
    def _known_once(cls, value: list[str]) -> list[str]:
        return known_once(value, classification=True)

    @field_validator("controls")
    @classmethod
    def _each_once(cls, value: list[ControlName]) -> list[ControlName]:
        if len(set(value)) < len(value):
            raise ValueError("a control is named twice")
        return value


def languages_of(name: str) -> tuple[str, str] | None:
    """Return the languages of the first and of the second sentences of ``STSBenchmark-de`` or ``STSBenchmark-en-de``;
    None for another task, ValueError for an unknown language, and for the same one twice.
    """
    codes = name.removeprefix("STSBenchmark-").split("-", 1)
    if not name.startswith("STSBenchmark-"):
        return None
    if unknown := [code for code in codes if code not in LANGUAGES]:
        known = ", ".join(LANGUAGES)
        raise ValueError(f"STS Benchmark is not there in the language {quote(unknown[0])}; expected one of {known}")
    if len(codes) > 1 and codes[0] == codes[1]:
        raise ValueError(f"{name} has one language; the task is called STSBenchmark-{codes[0]}")
    return codes[0], codes[-1]


def known_once(tasks: list[str], *, classification: bool = False) -> list[str]:
    """Return the names of tasks unchanged; raise ValueError for an unknown or repeated name.

    The cosine cannot evaluate classification tasks.
    """
    others = ("SICKRelatedness", *(CLASSIFICATION if classification else ()))
    for name in tasks:
        if name not in others and not re.fullmatch(r"STS[\w.-]+", name):
            accepted = f"STSBenchmark, STS12 and other STS..., {', '.join(others)}"
            raise ValueError(f"no such task: {name!r} (accepted: {accepted})")
        languages_of(name)
    if len(set(tasks)) != len(tasks):
        raise ValueError("a task is named twice")
    return tasks
