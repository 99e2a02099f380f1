"""The curves of a training run as tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sightword.grounded.training.task import Progress
from sightword.io.files import write_tsv

Curves = Mapping[str, list[tuple[int, float]]]


def write_curves(folder: Path, progress: Progress) -> None:
    """Write ``loss.tsv`` and ``dev.tsv``, a column for each part of the loss, and ``norms.tsv``, into a folder.

    A scenario that trains nothing has tables without rows.
    """
    for name, curves in (("loss", progress.loss), ("dev", progress.dev)):
        write_tsv(folder / f"{name}.tsv", ("batch", *curves), _rows(curves))
    write_tsv(folder / "norms.tsv", ("batch", "text", "grounded"), progress.norms)


def _rows(curves: Curves) -> list[tuple[object, ...]]:
    """Return a row for each measured batch; a part that was not measured there is empty."""
    values = {part: dict(curve) for part, curve in curves.items()}
    batches = sorted({batch for curve in values.values() for batch in curve})
    return [(batch, *(curve.get(batch, "") for curve in values.values())) for batch in batches]
