"""Compares the pairs of a run with the pairs of the published scores, SNLI's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SNLI = {
    "train": {"entailment": 183_416, "neutral": 182_764, "contradiction": 183_187},
    "test": {"entailment": 3_368, "neutral": 3_219, "contradiction": 3_237},
}
"""The labelled pairs of SNLI 1.0."""


def differences(counts: Mapping[str, Any], split: str) -> list[str]:
    """Return each reason why published numbers do not belong beside a run's; empty where its pairs are SNLI's.

    Args:
        counts: the content of ``pairs.json``.
        split: the split that is judged.
    """
    found = []
    for name in ("train", "test"):
        wanted, own = _SNLI[name], counts[name]["labels"]
        if any(own.get(label, 0) != count for label, count in wanted.items()):
            part = "training" if name == "train" else name
            pairs = f"{sum(own.values()):,}"
            theirs = f"{sum(wanted.values()):,}"
            found.append(f"{part} has {pairs} pairs ({', '.join(counts[name]['sources'])}), not SNLI's {theirs}")
    if split != "test":
        found.append(f"the split is {split}, not test")
    return found
