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
from sightword.io.opening import lines
from sightword.io.tables import Table
from sightword.messages import plural, quote

SICK_FILES = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
SICK = Table(
    ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"),
    SemanticsError,
    optional=("entailment_judgment",),
    empty=("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"),
    separator="\t",
)
BENCHMARK = Table(
    ("genre", "file", "year", "id", "score", "first sentence", "second sentence"),
    SemanticsError,
    header=False,
    empty=("genre", "file", "year", "id", "first sentence", "second sentence"),
    more=True,  # as on some lines of the original distribution
    separator="\t",
)


def read_parallel(
    files: Sequence[Path], expected: str, encodings: Sequence[str] = ()
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the number of each line and the line of each file, in UTF-8 unless ``encodings`` says another.

    SemanticsError if files differ in their number of lines: ``expected`` says how they belong together.
    """
    named = zip(files, encodings or ["utf-8"] * len(files), strict=True)
    columns = [[line for _, line in lines(file, SemanticsError, encoding=name)] for file, name in named]
    for file, texts in zip(files[1:], columns[1:], strict=True):
        check_partners(file, len(texts), files[0], len(columns[0]), expected)
    yield from enumerate(zip(*columns, strict=True), start=1)


def check_partners(file: Path, count: int, partner: Path, partner_count: int, expected: str) -> None:
    """Raise SemanticsError, with the first line without a partner, if two files differ in their number of lines."""
    if count != partner_count:
        shorter = min(count, partner_count)
        more = file if count > shorter else partner
        what = f"has {plural(count, 'line')} for the {partner_count} of {partner.name}; "
        what += f"the first without a partner is line {shorter + 1} of {more.name}"
        raise SemanticsError(what, where=file, expected=expected)


def sentence(tokens: Sequence[str]) -> str:
    """Return the tokens joined by single spaces; ``.`` without tokens, as in SentEval's own examples."""
    return " ".join(tokens) or "."


Features = Literal["vector", "compared", "directed", "all"]
"""The features of a classifier: the vector; of a pair ``|u - v|, u * v``; ``u, v, |u - v|``; ``u, v, u * v, |u - v|``.
``compared`` are equal when the sentences change places, so they cannot tell which one entails the other."""

Protocol = Literal["nested", "folds", "split"]
"""The evaluation protocol: ``nested``, folds within folds of all examples; ``folds``, a test set, with the
regularisation chosen by folds of the training examples; ``split``, a test set, with the regularisation chosen by dev
examples.
"""


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

    def sentences(self) -> list[str]:
        """Return every sentence, including repetitions."""
        return [*self.first, *(self.second or ())]


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

    def sentences(self) -> list[str]:
        """Return the sentences of all parts."""
        return [text for part in (self.train, self.dev, self.test) if part is not None for text in part.sentences()]

    def test_sentences(self) -> list[str]:
        """Return the sentences of the test examples."""
        return (self.train if self.test is None else self.test).sentences()


_SST2 = Table(("sentence", "0 or 1"), SemanticsError, header=False, empty=("sentence",), separator="\t")
_MRPC = Table(("Quality", "#1 String", "#2 String"), SemanticsError, empty=("#1 String", "#2 String"), separator="\t")

_Row = tuple[str, list[str], list[str], str]
"""The place of an example for messages, the tokens of its sentences (none for a missing second), and its class."""


def _read_binary(files: Sequence[Path]) -> Iterator[_Row]:
    for file in files:
        for number, line in lines(file, SemanticsError, encoding="latin-1"):
            yield f"{file}, line {number}", line.split(), [], file.name


def _read_sst2(files: Sequence[Path]) -> Iterator[_Row]:
    for where, (text, label) in _SST2.rows(files[0]):
        yield where, text.split(), [], label


def _read_trec(files: Sequence[Path]) -> Iterator[_Row]:
    for number, line in lines(files[0], SemanticsError, encoding="latin-1"):
        where = f"{files[0]}, line {number}"
        label, colon, rest = line.strip().partition(":")
        _, space, question = rest.partition(" ")
        if not colon or not space:
            raise SemanticsError("has no class or no question", where=where, expected="CLASS:kind question")
        yield where, question.split(), [], label


def _read_mrpc(files: Sequence[Path]) -> Iterator[_Row]:
    for where, (label, first, second) in _MRPC.rows(files[0]):
        yield where, first.split(), second.split(), label


def _read_sick(files: Sequence[Path]) -> Iterator[_Row]:
    for where, (_, first, second, _, label) in SICK.rows(files[0]):
        yield where, first.split(), second.split(), label


def _read_snli(files: Sequence[Path]) -> Iterator[_Row]:
    """Read the sentences as Latin-1, as SentEval does although they are UTF-8: a letter outside ASCII becomes two.

    Tokens end at ASCII white space only, since half a letter read as Latin-1 may look like a no-break space.
    """
    encodings = ("utf-8", "latin-1", "latin-1")
    for number, (label, *pair) in read_parallel(files, "one sentence for each label", encodings):
        first, second = (re.findall(r"[^ \t\r\x0b\x0c]+", line) for line in pair)
        yield f"{files[0]}, line {number}", first, second, label.strip()


@dataclass(frozen=True)
class _Format:
    folder: str
    files: tuple[str, ...]
    """The files of all parts: train and test for ``folds``; train, dev and test for ``split``."""
    classes: tuple[str, ...]
    features: Features
    protocol: Protocol
    read: Callable[[Sequence[Path]], Iterator[_Row]]
    """Reads the files of one part."""


def _polarity(folder: str, positive: str, negative: str) -> _Format:
    """Return the format of two files with one sentence a line; the first file has class 1 (for SUBJ, objective)."""
    return _Format(folder, (positive, negative), (negative, positive), "vector", "nested", _read_binary)


_SICK = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
_TREC = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_SNLI = ("entailment", "neutral", "contradiction")
_SST2_FILES = ("sentiment-train", "sentiment-dev", "sentiment-test")
_MRPC_FILES = ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt")
_SNLI_FILES = tuple(f"{kind}.{part}" for part in ("train", "dev", "test") for kind in ("labels", "s1", "s2"))
_FORMATS = {
    "SICKEntailment": _Format("SICK", SICK_FILES, _SICK, "compared", "split", _read_sick),
    "MR": _polarity("MR", "rt-polarity.pos", "rt-polarity.neg"),
    "CR": _polarity("CR", "custrev.pos", "custrev.neg"),
    "SUBJ": _polarity("SUBJ", "subj.objective", "subj.subjective"),
    "MPQA": _polarity("MPQA", "mpqa.pos", "mpqa.neg"),
    "SST2": _Format("SST/binary", _SST2_FILES, ("0", "1"), "vector", "split", _read_sst2),
    "TREC": _Format("TREC", ("train_5500.label", "TREC_10.label"), _TREC, "vector", "folds", _read_trec),
    "MRPC": _Format("MRPC", _MRPC_FILES, ("0", "1"), "compared", "folds", _read_mrpc),
    "SNLI": _Format("SNLI", _SNLI_FILES, _SNLI, "all", "split", _read_snli),
}

FILES = {name: (form.folder, form.files) for name, form in _FORMATS.items()}
"""Each task's folder in ``downstream`` and the files there."""


def read_classification(name: str, downstream: Path) -> ClassificationTask:
    """Read the task ``name``, a key of :data:`FILES`; SemanticsError, with file and line, if a file cannot be read."""
    form = _FORMATS[name]
    folder = downstream / form.folder
    files = [folder / file for file in form.files]
    each = len(files) // {"nested": 1, "folds": 2, "split": 3}[form.protocol]
    train, *others = (_read_part(name, files[start : start + each]) for start in range(0, len(files), each))
    if absent := [label for number, label in enumerate(form.classes) if number not in train.labels]:
        what = f"has no example of the class {absent[0]}"
        raise SemanticsError(what, where=files[0], expected="some of each class")
    test, dev = [*reversed(others), None, None][:2]
    regularised = name != "SNLI"
    return ClassificationTask(name, folder, form.classes, form.features, form.protocol, train, dev, test, regularised)


def _read_part(name: str, files: Sequence[Path]) -> Labelled:
    form = _FORMATS[name]
    rows = []
    for where, first, second, label in form.read(files):
        if label not in form.classes:
            raise SemanticsError(f"the class is {quote(label)}", where=where, expected=" or ".join(form.classes))
        rows.append((first, second, form.classes.index(label)))
    if not rows:
        raise SemanticsError("has no example", where=files[0])
    if name == "SNLI":  # SentEval sorts SNLI by the second sentence first, and by the labels' names
        rows.sort(key=lambda row: (len(row[1]), len(row[0]), form.classes[row[2]]))
    else:
        rows.sort(key=lambda row: (len(row[0]), len(row[1]), row[2]))
    firsts, seconds, labels = zip(*rows, strict=True)
    pairs = form.features != "vector"
    return Labelled(
        list(map(sentence, firsts)), list(map(sentence, seconds)) if pairs else None, np.array(labels, np.int64)
    )
