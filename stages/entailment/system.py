"""Declarations of the pipeline of entailment: see :mod:`pipeline.systems`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.doctor.findings import Check, Context, Finding, tried
from pipeline.systems import Compared, start

if TYPE_CHECKING:
    from pipeline.comparison.parts import Accuracy

SEED = "train.seed"
PARAMS = "entailment/params.yaml"


def encoders(values: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the encoder from which training starts."""
    return start(values)


def check(context: Context) -> Iterator[Finding]:
    """Check the sources of the sentence pairs, each by its first pair."""
    from sightword.entailment.data.sources import check_source

    pairs = context.section(f"{PARAMS}:pairs")
    if pairs is None:
        return
    sources = {"train": pairs.train, "dev": pairs.dev, "test": pairs.test}
    every = [(f"pairs.{name}[{at}]", one) for name, some in sources.items() for at, one in enumerate(some)]
    for parameter, one in every:
        there = one.model_copy(update={"path": str(context.root / one.path)})
        yield tried(context, f"{PARAMS}:{parameter}", one.path, partial(check_source, there))


def compare(a: Path, b: Path, **_: int) -> list[Accuracy]:
    """Compare two tables ``scores.parquet`` of the stage evaluate: on all pairs, and on each class that has pairs."""
    from pipeline.comparison.parts import classified, read
    from sightword.entailment.data.pairs import LABELS, premise_numbers

    stage, same = "entailment/dvc.yaml:evaluate", ("premise", "hypothesis", "label", "entailed")
    ours, theirs = read(a, b, stage, same, ("accepted",), "sentences")
    first, second = (one["accepted"] == one["entailed"] for one in (ours, theirs))
    masks = {label: ours["label"] == label for label in LABELS}
    return classified(first, second, masks, premise_numbers(ours["premise"].tolist()))


CHECKS = (Check("entailment", check, needs_project=True),)
COMPARED = (Compared("Entailment", "pairs of sentences", Path("data/entailment/scores/scores.parquet"), compare),)
