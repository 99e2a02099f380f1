"""Labelled sentence pairs of one split, and the folder that keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.captions.units import split as tokens_of
from sightword.errors import FileFormatError, SemanticsError
from sightword.io.files import Pathish, read_table, write_table
from sightword.io.saved import Format
from sightword.messages import quote
from sightword.settings import SPLITS

Bools = NDArray[np.bool_]
LABELS = ("entailment", "neutral", "contradiction")
UNDECIDED = "undecided"
"""The label of pairs on which the annotators did not agree; they are left out."""
CLASSES = {2: ("not entailed", "entailment"), 3: ("neutral", "contradiction", "entailment")}
"""By their number, the classes that a classifier tells apart, 'entailment' last."""
TODO = "Run `make entailment` (without make: `rm -f entailment/.dvcignore && dvc repro entailment/dvc.yaml`)."

FILE = "pairs.parquet"
FOLDER = Format("pairs.json", 1, TODO, FileFormatError)
"""The format of ``data/entailment/pairs/``."""


@dataclass(frozen=True)
class SentencePairs:
    """N pairs; all columns have the same length."""

    premises: list[str]
    hypotheses: list[str]
    labels: list[str]  # of LABELS
    entailed: Bools  # (N,) whether the premise entails the hypothesis
    sources: list[str]  # the source of each pair, as the parameters name it

    def __len__(self) -> int:
        return len(self.premises)

    @classmethod
    def of(cls, rows: Sequence[tuple[str, str, str, str]]) -> SentencePairs:
        """Return the pairs of rows (premise, hypothesis, label, source)."""
        premises, hypotheses, labels, sources = ([row[column] for row in rows] for column in range(4))
        entailed = np.array([label == "entailment" for label in labels], bool)
        return cls(premises, hypotheses, labels, entailed, sources)

    def classes(self, number: int) -> NDArray[np.int64]:
        """Return the place (N,) of each pair's class in :data:`CLASSES`."""
        if number == 2:
            return self.entailed.astype(np.int64)
        return np.array([CLASSES[number].index(label) for label in self.labels], np.int64)

    def where(self, rows: NDArray[Any]) -> SentencePairs:
        """Return some pairs, by a mask or by their places, in the order given."""
        columns = (self.premises, self.hypotheses, self.labels, self.sources)
        places = np.arange(len(self))[rows].tolist()
        return SentencePairs.of([tuple(column[place] for column in columns) for place in places])


def premise_key(premise: str) -> str:
    """Return the words and signs of a premise in lower case: the same for tokenised and plain text."""
    return " ".join(tokens_of(premise.lower(), "word"))


def premise_numbers(premises: Sequence[str]) -> NDArray[np.int64]:
    """Return a number (N,) for each of N premises, the same for equal ones by :func:`premise_key`.

    Most premises of SNLI have three pairs, which are alike: intervals and tests take them together.
    """
    keys = {text: premise_key(text) for text in set(premises)}
    # As objects: an array of texts takes four bytes for each letter of the longest, for every text.
    return np.unique(np.array([keys[text] for text in premises], object), return_inverse=True)[1].astype(np.int64)


def in_training(pairs: SentencePairs, train: SentencePairs) -> Bools:
    """Return (N,) whether the premise of each pair is one of training, by :func:`premise_key`."""
    known = set(map(premise_key, train.premises))
    return np.array([premise_key(premise) in known for premise in pairs.premises], bool)


def write_pairs(folder: Pathish, splits: Mapping[str, SentencePairs], counts: Mapping[str, Any]) -> None:
    """Write ``pairs.parquet``, split after split, and ``pairs.json`` with the counts into an existing folder."""
    import pyarrow as pa

    parts = [splits[name] for name in SPLITS]

    def texts(name: str) -> Any:
        return pa.array([text for part in parts for text in getattr(part, name)], pa.string())

    columns = {
        "premise": texts("premises"),
        "hypothesis": texts("hypotheses"),
        "label": texts("labels"),
        "entailed": np.concatenate([part.entailed for part in parts]),
        "split": pa.array([name for name in SPLITS for _ in range(len(splits[name]))], pa.string()),
        "source": texts("sources"),
    }
    write_table(Path(folder) / FILE, pa.table(columns))
    FOLDER.write(Path(folder), counts, [FILE])


def read_split(folder: Pathish, split: str) -> SentencePairs:
    """Read the pairs of one split from the folder that the stage pairs wrote.

    Raises:
        FileFormatError: the file is missing, damaged, or lacks a column.
        SemanticsError: no split has this name, or it has no pairs.
    """
    import pyarrow as pa

    if split not in SPLITS:
        raise SemanticsError(f"no split is called {quote(split)}", expected=", ".join(SPLITS))
    place = Path(folder) / FILE
    FOLDER.require(FOLDER.read(Path(folder))[1], FILE, where=Path(folder))
    table = read_table(place, ("premise", "hypothesis", "label", "entailed", "split", "source"), todo=TODO)
    table = table.filter(pa.array([name == split for name in table["split"].to_pylist()], pa.bool_()))
    if not table.num_rows:
        raise SemanticsError(f"has no pairs of the split {split}", where=place, todo=TODO)
    rows = zip(*(table[name].to_pylist() for name in ("premise", "hypothesis", "label", "source")), strict=True)
    pairs = SentencePairs.of(list(rows))
    if strange := sorted(set(pairs.labels).difference(LABELS), key=str):
        expected = ", ".join(LABELS)
        raise FileFormatError(f"has the label {quote(strange[0])}", where=place, expected=expected, todo=TODO)
    return pairs
