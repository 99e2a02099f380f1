"""The few numbers for comparing experiments: flat, short, and with the same keys for every evaluation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sightword.report.inputs import Run
from sightword.report.number_formats import is_number
from sightword.report.semantics_table import headline

DIRECTIONS = {"image": "caption_to_image", "caption": "image_to_caption"}
"""The direction of each kind of answer."""
PROTOCOLS = {"": "full", "_1k": "five_fold_1k"}


def summary(run: Run) -> dict[str, float | str]:
    """Return the content of ``metrics/summary.json``.

    Returns:
        ``dev_r10``: mean recall@10 of both directions on dev, which selects models. Then, for the scored ``split``, in
            percent: ``image_r1`` and ``image_r10`` (pictures found by captions), ``caption_r1`` and ``caption_r10``
            (captions found by pictures), the same with ``_1k`` for five folds. As fractions: ``sts``, the mean of
            Pearson's r over all STS subtasks, ``stsb`` and ``sick``, Pearson's r of the test pairs' cosines. Missing
            numbers are left out.
    """
    found: dict[str, float | str] = {}
    _add(found, "dev_r10", run.select.get("ensemble_r10"))
    if run.retrieval:
        split = headline_split(run.retrieval)
        found["split"] = split
        for suffix, protocol in PROTOCOLS.items():
            entry = _part(run.retrieval, split, protocol)
            for short, direction in DIRECTIONS.items():
                for recall in ("r1", "r10"):
                    _add(found, f"{short}_{recall}{suffix}", _part(entry, direction).get(recall))
    mean = headline(run.semantics)
    _add(found, "sts", None if mean is None else mean[1])
    for name, task in (("stsb", "STSBenchmark"), ("sick", "SICKRelatedness")):
        _add(found, name, _part(run.semantics, task, "cosine").get("pearson"))
    return found


def headline_split(retrieval: Collection[str]) -> str:
    """Return the split that sums up a run: test, or else the first by name; test without any scored split."""
    return "test" if "test" in retrieval or not retrieval else min(retrieval)


def _add(found: dict[str, float | str], name: str, value: object) -> None:
    if is_number(value):
        found[name] = value


def _part(values: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the mapping below some keys; empty if a key is missing."""
    for key in keys:
        below = values.get(key)
        values = below if isinstance(below, Mapping) else {}
    return values
