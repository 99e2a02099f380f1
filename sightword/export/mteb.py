"""Scores of sentence similarity as result files of MTEB, which its ``TaskResult`` reads (tried with version 2.26).

The pairs are SentEval's, as many as MTEB has, but with spaces between tokens; so a file names SentEval as the revision
of the data, and no version of MTEB. MTEB's SICK-R joins the three parts of SICK, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sightword.io.files import write_json

ENTRIES = {**dict.fromkeys(("STS12", "STS13", "STS14", "STS15", "STS16"), "all"), "STSBenchmark": "cosine"}
"""MTEB's tasks, and the entry of an evaluation with the correlation over all pairs of the test part."""
REVISION = "SentEval 5d6dc117"


def task_result(task: str, entry: Mapping[str, float]) -> dict[str, Any]:
    """Return the content of the result file of a task.

    Args:
        task: one of :data:`ENTRIES`.
        entry: ``pearson`` and ``spearman`` of the cosines, which are MTEB's similarity of sentences.
    """
    scores: dict[str, Any] = {name: round(entry[name], 6) for name in ("pearson", "spearman")}
    scores |= {f"cosine_{name}": value for name, value in scores.items()}
    scores |= {"main_score": scores["spearman"], "hf_subset": "default", "languages": ["eng-Latn"]}
    empty = dict.fromkeys(("mteb_version", "evaluation_time", "kg_co2_emissions"))
    return {"dataset_revision": REVISION, "task_name": task, "scores": {"test": [scores]}} | empty


def write_results(folder: Path, metrics: Mapping[str, Any]) -> list[Path]:
    """Write a file for each task of MTEB with a defined correlation, and return the paths.

    Args:
        folder: where the files are written, ``STS12.json`` and so on.
        metrics: of :func:`sightword.evaluation.semantics.evaluation.evaluate`.
    """
    known = {task: metrics[task][entry] for task, entry in ENTRIES.items() if task in metrics}
    found = {task: entry for task, entry in known.items() if entry["spearman"] is not None}
    for task, entry in found.items():
        write_json(folder / f"{task}.json", task_result(task, entry))
    return [folder / f"{task}.json" for task in found]
