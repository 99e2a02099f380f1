"""Reads SentEval's classification tasks: SICK entailment, MR, CR, SUBJ, MPQA, SST2, TREC, MRPC, SNLI.

The files are those that the download script of facebookresearch/SentEval makes. Examples are sorted as in SentEval, by
lengths in tokens and label, because the seeded folds and batches depend on the order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sightword.errors import SemanticsError
from sightword.semantics.text_files import (
    SICK_COLUMNS,
    SICK_FILES,
    check_partners,
    count,
    read_lines,
    read_sick,
    sentence,
)

Features = Literal["vector", "compared", "all"]
"""The features of a classifier: the vector; ``|u - v|, u * v`` of a pair; ``u, v, u * v, |u - v|`` of a pair."""

Protocol = Literal["nested", "folds", "split"]
"""The evaluation protocol: ``nested``, folds within folds of all examples; ``folds``, a test set, with the
regularisation chosen by folds of the training examples; ``split``, a test set, with the regularisation chosen by dev
examples.
"""

FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "SICKEntailment": ("SICK", SICK_FILES),
    "MR": ("MR", ("rt-polarity.pos", "rt-polarity.neg")),
    "CR": ("CR", ("custrev.pos", "custrev.neg")),
    "SUBJ": ("SUBJ", ("subj.objective", "subj.subjective")),
    "MPQA": ("MPQA", ("mpqa.pos", "mpqa.neg")),
    "SST2": ("SST/binary", ("sentiment-train", "sentiment-dev", "sentiment-test")),
    "TREC": ("TREC", ("train_5500.label", "TREC_10.label")),
    "MRPC": ("MRPC", ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt")),
    "SNLI": ("SNLI", tuple(f"{kind}.{part}" for part in ("train", "dev", "test") for kind in ("labels", "s1", "s2"))),
}
"""Each task's folder in ``downstream`` and the files there."""

_SICK = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
_SST2 = ("0", "1")
_TREC = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_MRPC = ("0", "1")
_SNLI = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True)
class Labelled:
    """Sentences or sentence pairs with their classes, in SentEval's order."""

    first: list[str]
    second: list[str] | None
    """The second sentences; None for single sentences."""
    labels: NDArray[np.int64]
    """(N,) indices into the task's classes."""

    def __len__(self) -> int:
        return len(self.first)

    def sentences(self) -> Iterator[str]:
        """Yield every sentence, including repetitions."""
        yield from self.first
        yield from self.second or ()


@dataclass(frozen=True)
class ClassificationTask:
    """A task that is evaluated by a logistic regression on the vectors."""

    name: str
    folder: Path
    """The folder of the files, for messages."""
    classes: tuple[str, ...]
    features: Features
    protocol: Protocol
    train: Labelled
    """The training examples; for ``nested``, all examples."""
    dev: Labelled | None = None
    """The dev examples, for ``split`` only."""
    test: Labelled | None = None
    """The test examples; None for ``nested``, which tests each example once."""
    regularised: bool = True

    def sentences(self) -> Iterator[str]:
        """Yield the sentences of all parts."""
        for part in (self.train, self.dev, self.test):
            if part is not None:
                yield from part.sentences()

    def test_sentences(self) -> list[str]:
        """Return the sentences of the test examples."""
        return list((self.train if self.test is None else self.test).sentences())


@dataclass(frozen=True)
class _Row:
    first: list[str]
    second: list[str] | None
    label: int


def read_classification(name: str, downstream: Path) -> ClassificationTask:
    """Read one task.

    Args:
        name: a key of :data:`FILES`.
        downstream: SentEval's folder of that name.

    Raises:
        SemanticsError: a file cannot be read; the message names file and line.
    """
    folder_name, names = FILES[name]
    folder = downstream / folder_name
    files = [folder / file for file in names]
    if name == "SICKEntailment":
        train, dev, test = (_read_sick_entailment(file) for file in files)
        _check_classes(train, _SICK, files[0])
        return ClassificationTask(name, folder, _SICK, "compared", "split", train, dev, test)
    if name == "SST2":
        train, dev, test = (_read_sst2(file) for file in files)
        _check_classes(train, _SST2, files[0])
        return ClassificationTask(name, folder, _SST2, "vector", "split", train, dev, test)
    if name == "TREC":
        train, test = (_read_trec(file) for file in files)
        _check_classes(train, _TREC, files[0])
        return ClassificationTask(name, folder, _TREC, "vector", "folds", train, test=test)
    if name == "MRPC":
        train, test = (_read_mrpc(file) for file in files)
        _check_classes(train, _MRPC, files[0])
        return ClassificationTask(name, folder, _MRPC, "compared", "folds", train, test=test)
    if name == "SNLI":
        train, dev, test = (_read_snli(*files[start : start + 3]) for start in (0, 3, 6))
        _check_classes(train, _SNLI, files[0])
        return ClassificationTask(name, folder, _SNLI, "all", "split", train, dev, test, regularised=False)
    return ClassificationTask(name, folder, (names[1], names[0]), "vector", "nested", _read_binary(*files))


def _read_binary(positive: Path, negative: Path) -> Labelled:
    """Read one sentence a line; the first file has class 1 (for SUBJ, the objective sentences)."""
    rows = []
    for file, label in ((positive, 1), (negative, 0)):
        lines = read_lines(file, "latin-1")
        if not lines:
            raise SemanticsError("is empty", where=file, expected="one sentence a line")
        rows += [_Row(line.split(), None, label) for line in lines]
    return _labelled(rows, positive)


def _read_sst2(file: Path) -> Labelled:
    rows = []
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file}, line {number}"
        columns = line.strip().split("\t")
        if len(columns) != 2:
            raise SemanticsError(
                f"has {count(len(columns), 'column')}",
                where=where,
                expected="a sentence and 0 or 1, separated by a tab",
            )
        rows.append(_Row(columns[0].split(), None, _label(columns[1], _SST2, where)))
    return _labelled(rows, file)


def _read_trec(file: Path) -> Labelled:
    rows = []
    for number, line in enumerate(read_lines(file, "latin-1"), start=1):
        where = f"{file}, line {number}"
        label, colon, rest = line.strip().partition(":")
        _, space, question = rest.partition(" ")
        if not colon or not space:
            raise SemanticsError("has no class or no question", where=where, expected="CLASS:kind question")
        rows.append(_Row(question.split(), None, _label(label, _TREC, where)))
    return _labelled(rows, file)


def _read_mrpc(file: Path) -> Labelled:
    lines = read_lines(file)
    expected = "Quality, #1 ID, #2 ID, #1 String, #2 String, separated by tabs"
    if not lines or lines[0].split("\t")[0] != "Quality":
        raise SemanticsError(
            "has no header of MRPC" if lines else "is empty", where=f"{file}, line 1", expected=expected
        )
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        where = f"{file}, line {number}"
        columns = line.strip().split("\t")
        if len(columns) != 5:
            raise SemanticsError(f"has {count(len(columns), 'column')}", where=where, expected=expected)
        rows.append(_Row(columns[3].split(), columns[4].split(), _label(columns[0], _MRPC, where)))
    return _labelled(rows, file)


def _read_sick_entailment(file: Path) -> Labelled:
    rows = [
        _Row(columns[1].split(), columns[2].split(), _label(columns[4].strip(), _SICK, f"{file}, line {number}"))
        for number, columns in read_sick(file, len(SICK_COLUMNS))
    ]
    return _labelled(rows, file)


def _read_snli(labels_file: Path, first_file: Path, second_file: Path) -> Labelled:
    """Read the sentences as Latin-1, as SentEval does although they are UTF-8: a letter outside ASCII becomes two."""
    labels = read_lines(labels_file)
    first, second = (read_lines(file, "latin-1") for file in (first_file, second_file))
    for file, lines in ((first_file, first), (second_file, second)):
        check_partners(file, len(lines), labels_file, len(labels), "one sentence for each label")
    rows = [
        _Row(_ascii_tokens(a), _ascii_tokens(b), _label(label.strip(), _SNLI, f"{labels_file}, line {number}"))
        for number, (label, a, b) in enumerate(zip(labels, first, second, strict=True), start=1)
    ]
    # SentEval sorts SNLI by the second sentence first, and by the labels' names.
    return _labelled(rows, labels_file, lambda row: (len(row.second or ()), len(row.first), _SNLI[row.label]))


def _ascii_tokens(line: str) -> list[str]:
    """Split at ASCII white space only, since half a letter read as Latin-1 may look like a no-break space."""
    return re.findall(r"[^ \t\r\x0b\x0c]+", line)


def _by_length(row: _Row) -> tuple[int, int, int]:
    return len(row.first), len(row.second or ()), row.label


def _labelled(
    rows: Sequence[_Row], where: Path, key: Callable[[_Row], tuple[int, int, int | str]] = _by_length
) -> Labelled:
    if not rows:
        raise SemanticsError("has no example", where=where)
    rows = sorted(rows, key=key)
    second = None if rows[0].second is None else [sentence(row.second or []) for row in rows]
    return Labelled(
        [sentence(row.first) for row in rows], second, np.array([row.label for row in rows], dtype=np.int64)
    )


def _label(text: str, classes: tuple[str, ...], where: str) -> int:
    try:
        return classes.index(text)
    except ValueError:
        raise SemanticsError(f"the class is {text!r}", where=where, expected=" or ".join(classes)) from None


def _check_classes(part: Labelled, classes: tuple[str, ...], file: Path) -> None:
    for label, name in enumerate(classes):
        if label not in part.labels:
            raise SemanticsError(f"has no example of the class {name}", where=file, expected="some of each class")
