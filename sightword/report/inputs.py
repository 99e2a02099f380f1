"""Reads and checks the inputs of the report: metrics, curves, the encoder's description."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightword.errors import FileFormatError
from sightword.files import read_json, read_table, read_text

TODO = "`dvc repro` makes it."

Columns = dict[str, list[str]]


@dataclass(frozen=True)
class RunFiles:
    """The files and folders of earlier stages."""

    dropped: Path
    """The records dropped from the corpus, a Parquet file."""
    captions: Path
    """The captions with their splits, a Parquet file."""
    resized: Path
    """The folder of resized pictures."""
    top: Path
    """The best answers to each query, a Parquet file."""
    pairs: Path
    """The folder of every sentence pair's score, and of the worst pairs."""
    metrics: Path
    """The folder of train, select, retrieval and semantics.json."""
    encoder: Path
    """The encoder's folder."""
    plots: Path
    """The folder of plots, one folder for each stage."""


@dataclass(frozen=True)
class Run:
    """The numbers of one run.

    Attributes:
        description: ``encoder.json``: the training parameters and features of the encoder.
        vocabulary: the number of tokens.
        train: the metrics of training, flat.
        select: the metrics of the selection, flat.
        retrieval: ``metrics/retrieval.json``, by split, protocol and direction.
        semantics: ``metrics/semantics.json``, by data set.
        unit: the kind of token, ``character`` or ``word``.
        curves: the columns of each existing ``plots/train/NAME.tsv``, by NAME.
        epochs: the columns of ``plots/epochs/epochs.tsv``; empty without the file.
        dropped: the counts of dropped records by kind (``picture`` or ``caption``) and reason.
        rejects: the counts of rejected pictures by reason.
    """

    description: Mapping[str, Any]
    vocabulary: int
    train: Mapping[str, Any]
    select: Mapping[str, Any]
    retrieval: Mapping[str, Any]
    semantics: Mapping[str, Any]
    unit: str = "character"
    curves: Mapping[str, Columns] = field(default_factory=dict)
    epochs: Columns = field(default_factory=dict)
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rejects: Mapping[str, int] = field(default_factory=dict)

    @property
    def features(self) -> Mapping[str, Any]:
        """Return the attributes of the encoder's training features, with embedded JSON parsed."""
        return {key: _opened(value) for key, value in _object(self.description.get("features")).items()}

    @property
    def training(self) -> Mapping[str, Any]:
        """Return the encoder's training parameters."""
        return _object(self.description.get("training"))


def read_run(files: RunFiles) -> Run:
    """Read a run's numbers.

    Raises:
        FileFormatError: a file is missing, damaged, or of another form; the message names it.
    """
    metrics = {
        name: _read_object(files.metrics / f"{name}.json") for name in ("train", "select", "retrieval", "semantics")
    }
    curves = {}
    for name in ("loss", "learning_rate", "recall"):
        path = files.plots / "train" / f"{name}.tsv"
        if path.exists():
            curves[name] = read_tsv(path)
    epochs = files.plots / "epochs" / "epochs.tsv"
    vocabulary = _read_object(files.encoder / "vocabulary.json")
    left_out = _columns(files.dropped, "reason", "kind")
    return Run(
        description=_read_object(files.encoder / "encoder.json"),
        vocabulary=len(vocabulary.get("tokens", ())),
        unit=str(vocabulary.get("unit", "character")),
        curves=curves,
        epochs=read_tsv(epochs) if epochs.exists() else {},
        dropped={kind: _count(reason for reason, of in left_out if of == kind) for kind in ("picture", "caption")},
        rejects=_count(reason for (reason,) in _columns(files.resized / "rejects.parquet", "reason")),
        **metrics,
    )


def read_tsv(path: Path) -> Columns:
    """Read a table of tab-separated columns with a header row; cells with quotes or line ends in them are quoted.

    Raises:
        FileFormatError: the header is missing, or a row has another number of cells.
    """
    lines = csv.reader(io.StringIO(read_text(path, todo=TODO), newline=""), delimiter="\t")
    names = next(lines, [])
    if not any(names):
        raise FileFormatError("has no header row", where=path, todo=TODO)
    columns: Columns = {name: [] for name in names}
    for cells in lines:
        number = lines.line_num
        if len(cells) != len(names):
            raise FileFormatError(
                f"has {len(cells)} cells", where=f"{path}, line {number}", expected=f"{len(names)}: {', '.join(names)}"
            )
        for name, cell in zip(names, cells, strict=True):
            columns[name].append(cell)
    return columns


def numbers(columns: Columns, name: str, *, where: str, blanks: bool = False) -> list[float]:
    """Return a column as floats; with ``blanks`` an empty cell is NaN.

    Raises:
        FileFormatError: the column is missing, or a cell is not a number.
    """
    try:
        return [math.nan if blanks and not cell else float(cell) for cell in texts(columns, name, where=where)]
    except ValueError as error:
        raise FileFormatError(f"column {name}: {error}", where=where, todo=TODO) from None


def texts(columns: Columns, name: str, *, where: str) -> list[str]:
    """Return the cells of a column.

    Raises:
        FileFormatError: the column is missing.
    """
    if name not in columns:
        raise FileFormatError(f"has no column {name}", where=where, expected=", ".join(columns), todo=TODO)
    return columns[name]


def _read_object(path: Path) -> Mapping[str, Any]:
    value = read_json(path, todo=TODO)
    if not isinstance(value, dict):
        raise FileFormatError(f"holds a {type(value).__name__}", where=path, expected="an object", todo=TODO)
    return value


def _columns(path: Path, *names: str) -> list[tuple[str, ...]]:
    """Return the rows of some columns; an empty list without the table."""
    if not path.exists():
        return []
    table = read_table(path, names, todo=TODO)
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def _count(reasons: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(reasons).items()))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _opened(value: object) -> object:
    if isinstance(value, str) and value.startswith("{"):
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return value
