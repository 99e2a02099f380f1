"""The inputs of the report, read from files and checked: metrics, curves, the encoder's description."""

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
class Places:
    """The paths of the earlier stages' results."""

    dropped: Path
    """What the corpus left out, a Parquet file."""
    captions: Path
    """The captions with their splits, a Parquet file."""
    resized: Path
    """The folder of resized pictures."""
    top: Path
    """The best answers to each query, a Parquet file."""
    pairs: Path
    """The folder of the score of every sentence pair, and of the worst ones."""
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
        description: ``encoder.json``: how the encoder was trained, on which features.
        vocabulary: how many tokens it knows.
        train: what the training says of itself, flat.
        select: what the selection says of itself, flat.
        retrieval: per split, protocol and direction, as in ``metrics/retrieval.json``.
        semantics: per data set, as in ``metrics/semantics.json``.
        unit: what its tokens are, ``character`` or ``word``.
        curves: the columns of ``plots/train/NAME.tsv`` by NAME; those that are absent are left out.
        epochs: the columns of ``plots/epochs/epochs.tsv``; none where it is absent.
        dropped: what the corpus left out, ``picture`` and ``caption``, each a count for each reason.
        rejects: the resized pictures' rejects, a count for each reason.
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
        """The attributes of the features the encoder was trained on; JSON in them is opened."""
        return {key: _opened(value) for key, value in _object(self.description.get("features")).items()}

    @property
    def training(self) -> Mapping[str, Any]:
        """The parameters the encoder was trained with."""
        return _object(self.description.get("training"))


def read_run(places: Places) -> Run:
    """Read a run's numbers.

    Raises:
        FileFormatError: a file is missing, damaged, or of another form; the message names it.
    """
    metrics = {
        name: _read_object(places.metrics / f"{name}.json") for name in ("train", "select", "retrieval", "semantics")
    }
    curves = {}
    for name in ("loss", "learning_rate", "recall"):
        path = places.plots / "train" / f"{name}.tsv"
        if path.exists():
            curves[name] = read_tsv(path)
    epochs = places.plots / "epochs" / "epochs.tsv"
    vocabulary = _read_object(places.encoder / "vocabulary.json")
    left_out = _columns(places.dropped, "reason", "kind")
    return Run(
        description=_read_object(places.encoder / "encoder.json"),
        vocabulary=len(vocabulary.get("tokens", ())),
        unit=str(vocabulary.get("unit", "character")),
        curves=curves,
        epochs=read_tsv(epochs) if epochs.exists() else {},
        dropped={kind: _count(reason for reason, of in left_out if of == kind) for kind in ("picture", "caption")},
        rejects=_count(reason for (reason,) in _columns(places.resized / "rejects.parquet", "reason")),
        **metrics,
    )


def read_tsv(path: Path) -> Columns:
    """Read a table of tab-separated columns with a header row; cells with quotes or line ends in them are quoted.

    Raises:
        FileFormatError: no header, or a row with more or fewer cells than it.
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
    """A column as floats; with ``blanks`` an empty cell is NaN.

    Raises:
        FileFormatError: no such column, or a cell that is no number.
    """
    try:
        return [math.nan if blanks and not cell else float(cell) for cell in texts(columns, name, where=where)]
    except ValueError as error:
        raise FileFormatError(f"column {name}: {error}", where=where, todo=TODO) from None


def texts(columns: Columns, name: str, *, where: str) -> list[str]:
    """A column as it stands.

    Raises:
        FileFormatError: no such column.
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
    """Rows of some columns; none where there is no such table."""
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
