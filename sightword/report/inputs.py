"""Reads and checks the inputs of the report: metrics, curves, the encoder's description."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightword.errors import FileFormatError
from sightword.io.files import loads, read_json, read_table
from sightword.io.tables import cells
from sightword.messages import and_more, short

TODO = "`dvc repro` makes it."

Columns = dict[str, list[str]]


@dataclass(frozen=True)
class RunFiles:
    """The Parquet files (dropped, captions, top) and folders of earlier stages."""

    dropped: Path
    captions: Path
    resized: Path
    top: Path
    """The best answers to each query."""
    pairs: Path
    """The folder of every sentence pair's score, and of the worst pairs."""
    metrics: Path
    encoder: Path
    plots: Path


@dataclass(frozen=True)
class RunNumbers:
    """The numbers of one run."""

    description: Mapping[str, Any]
    """``encoder.json``: the training parameters and features of the encoder."""
    train: Mapping[str, Any]
    """``metrics/train.json``, like the three others."""
    select: Mapping[str, Any]
    retrieval: Mapping[str, Any]
    semantics: Mapping[str, Any]
    curves: Mapping[str, Columns] = field(default_factory=dict)
    """The columns of each existing ``plots/train/NAME.tsv``, by NAME."""
    epochs: Columns = field(default_factory=dict)
    """The columns of ``plots/epochs/epochs.tsv``; empty without the file."""
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The counts of dropped records by kind (``picture`` or ``caption``) and reason."""
    rejects: Mapping[str, int] = field(default_factory=dict)
    """The counts of rejected pictures by reason."""

    @property
    def features(self) -> Mapping[str, Any]:
        """Return the attributes of the encoder's training features, with embedded JSON parsed."""
        return opened(_object(self.description.get("features")))

    @property
    def training(self) -> Mapping[str, Any]:
        """Return the encoder's training parameters."""
        return _object(self.description.get("training"))


def read_run(files: RunFiles) -> RunNumbers:
    """Read a run's numbers; FileFormatError, with the file, if one is missing, damaged or of another form."""
    metrics = {
        name: _read_object(files.metrics / f"{name}.json") for name in ("train", "select", "retrieval", "semantics")
    }
    curves = {name: read_tsv(files.plots / f"train/{name}.tsv") for name in ("loss", "recall")}
    left_out = _counts(files.dropped, "kind", "reason")
    return RunNumbers(
        description=_description(_read_object(files.encoder / "encoder.json")),
        curves={name: columns for name, columns in curves.items() if columns},
        epochs=read_tsv(files.plots / "epochs/epochs.tsv"),
        dropped={
            kind: {reason: count for (of, reason), count in left_out.items() if of == kind}
            for kind in ("picture", "caption")
        },
        rejects={reason: count for (reason,), count in _counts(files.resized / "rejects.parquet", "reason").items()},
        **metrics,
    )


def _description(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the notes of the encoder, and what else its file says of the whole; the names of weights are in files."""
    kept = {name: about[name] for name in ("similarity", "width", "features_width", "renormalise") if name in about}
    return {**kept, **_object(about.get("notes"))}


def read_tsv(path: Path) -> Columns:
    """Return the cells of each column of a tab-separated table with a header row; empty without the file.

    FileFormatError if the header is missing, or a row has another number of cells.
    """
    if not path.exists():
        return {}
    rows = cells(path, FileFormatError, separator="\t", quotes=True, todo=TODO)
    _, names = next(rows, (1, []))
    if not any(names):
        raise FileFormatError("has no header row", where=path, todo=TODO)
    columns: Columns = {name: [] for name in names}
    for line, row in rows:
        if len(row) != len(names):
            where, expected = f"{path}, line {line}", f"{len(names)}: {and_more(names, 8)}"
            raise FileFormatError(f"has {len(row)} cells", where=where, expected=expected)
        for name, cell in zip(names, row, strict=True):
            columns[name].append(cell)
    return columns


def numbers(columns: Columns, name: str, *, where: object, blanks: bool = False) -> list[float]:
    """Return a column as floats, with ``blanks`` NaN for an empty cell; FileFormatError for anything else."""
    try:
        return [math.nan if blanks and not cell else float(cell) for cell in texts(columns, name, where=where)]
    except ValueError as error:
        raise FileFormatError(f"column {name}: {short(error)}", where=str(where), todo=TODO) from None


def texts(columns: Columns, name: str, *, where: object) -> list[str]:
    """Return the cells of a column; FileFormatError if it is missing."""
    if name not in columns:
        raise FileFormatError(f"has no column {name}", where=str(where), expected=and_more(columns, 8), todo=TODO)
    return columns[name]


def _read_object(path: Path) -> Mapping[str, Any]:
    value = read_json(path, todo=TODO)
    if not isinstance(value, dict):
        raise FileFormatError(f"holds a {type(value).__name__}", where=path, expected="an object", todo=TODO)
    return value


def _counts(path: Path, *names: str) -> dict[tuple[str, ...], int]:
    """Return how often each row of some columns occurs, sorted; empty without the table."""
    if not path.exists():
        return {}
    table = read_table(path, names, todo=TODO)
    return dict(sorted(Counter(zip(*(table[name].to_pylist() for name in names), strict=True)).items()))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def opened(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of features with embedded JSON parsed."""
    return {key: _parsed(value) for key, value in attributes.items()}


def _parsed(value: object) -> object:
    try:
        return loads(value) if isinstance(value, str) and value.startswith("{") else value
    except json.JSONDecodeError:
        return value
