"""Readers of labelled sentence pairs: SNLI, MultiNLI, SICK, tables, and the sample's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from sightword.corpus.sample.sentences import sick_pair
from sightword.corpus.sample.world import load_world
from sightword.entailment.data.pairs import LABELS
from sightword.entailment.data.settings import Source
from sightword.errors import SemanticsError
from sightword.evaluation.semantics.text_files import SICK, SICK_FILES, read_parallel
from sightword.io.json_records import json_lines, member
from sightword.io.tables import Table
from sightword.messages import quote

Row = tuple[str, str, str, str]
"""The place of a pair for messages, its premise, its hypothesis, and its label as the file spells it."""

COLUMNS = (("premise", "sentence1"), ("hypothesis", "sentence2"), ("label", "gold_label"))
"""The accepted names of the columns of a table."""
_UNDECIDED = ("-", "undecided")
_TABLE = Table(COLUMNS, SemanticsError)
_MULTINLI = {"train": "train", "matched": "dev_matched", "mismatched": "dev_mismatched"}
_FETCH = {
    "snli": "Run `sightword fetch snli`.",
    "multinli": "Download MultiNLI 1.0 into this folder.",
    "sick": "Run `sightword fetch senteval`.",
}


def read_source(source: Source) -> list[tuple[str, str, str]]:
    """Return the pairs of a source in its order: premise, hypothesis, and one of the labels in :data:`LABELS`.

    Raises:
        SemanticsError: a file is absent or damaged, files of one part differ in length, a label is unknown, or a
            sentence is empty (file and line).
        CorpusError: the sample's description is wrong.
    """
    found = []
    for where, premise, hypothesis, label in _rows(source):
        known = label.strip().lower()
        known = "undecided" if known in _UNDECIDED else known
        if known not in LABELS:
            expected = f"{', '.join(LABELS[:-1])} or -"
            raise SemanticsError(f"the label is {quote(label)}", where=where, expected=expected)
        sentences = _filled(premise, "premise", where), _filled(hypothesis, "hypothesis", where)
        if source.premises == "all" or (source.premises == "tenth") == in_tenth(premise):
            found.append((*sentences, known))
    if not found:
        raise SemanticsError(f"has no pairs ({source.name})", where=source.path)
    return found


def check_source(source: Source) -> None:
    """Read the first pair of a source, but for its label.

    Raises:
        SemanticsError: the file is missing, damaged, or has no pair.
    """
    if next(_rows(source), None) is None:
        raise SemanticsError(f"has no pairs ({source.name})", where=source.path)


def _filled(text: str, which: str, where: str) -> str:
    """Return a sentence without white space around it; SemanticsError if nothing is left."""
    if not (found := text.strip()):
        raise SemanticsError(f"the {which} is empty", where=where, todo="Delete the pair, or write the sentence.")
    return found


def in_tenth(premise: str) -> bool:
    """Return whether the sha256 of a premise, in lower case without white space around it, is divisible by ten."""
    return int(hashlib.sha256(premise.strip().lower().encode()).hexdigest(), 16) % 10 == 0


def _rows(source: Source) -> Iterator[Row]:
    place = Path(source.path)
    if source.format == "snli":
        return _snli(place, source.part)
    if source.format == "multinli":
        return _jsonl(_present([place / f"multinli_1.0_{_MULTINLI[source.part]}.jsonl"], source)[0])
    if source.format == "sick":
        return _sick(_present([place / SICK_FILES[("train", "dev", "test").index(source.part)]], source)[0])
    if source.format == "sample":
        return _sample(place, source.part, source.count or 0)
    return _table(place)


def _snli(folder: Path, part: str) -> Iterator[Row]:
    """Read the first layout that is there: jsonl, txt, or SentEval's three files."""
    lines, columns = (folder / f"snli_1.0_{part}.{ending}" for ending in ("jsonl", "txt"))
    if lines.is_file():
        return _jsonl(lines)
    if columns.is_file():
        return _columns(columns)
    files = [folder / f"{kind}.{part}" for kind in ("labels", "s1", "s2")]
    return _senteval(_present(files, Source(format="snli", path=str(folder), part=part)))


def _present(files: Sequence[Path], source: Source) -> Sequence[Path]:
    if absent := [file.name for file in files if not file.is_file()]:
        what = f"{source.part} of {source.name.rpartition(' ')[0]} is absent ({', '.join(absent)})"
        raise SemanticsError(what, where=source.path, todo=_FETCH[source.format])
    return files


def _senteval(files: Sequence[Path]) -> Iterator[Row]:
    for number, (label, *pair) in read_parallel(files, "one sentence for each label"):
        premise, hypothesis = (
            _filled(text, which, f"{file}, line {number}")
            for text, which, file in zip(pair, ("premise", "hypothesis"), files[1:], strict=True)
        )
        yield f"{files[0]}, line {number}", premise, hypothesis, label


def _jsonl(file: Path) -> Iterator[Row]:
    for where, record in json_lines(file, SemanticsError):
        texts = []
        for names in COLUMNS:
            found = [name for name in names if name in record]
            if len(found) > 1:
                what = f"has the {names[0]} under two keys: {' and '.join(found)}"
                raise SemanticsError(what, where=where, expected="one of them")
            if not found:
                raise SemanticsError(f"has no {' or '.join(names)}", where=where)
            texts.append(member(record, found[0], str, where, SemanticsError))
        yield where, texts[0], texts[1], texts[2]


def _columns(file: Path) -> Iterator[Row]:
    for where, (premise, hypothesis, label) in _TABLE.rows(file):
        yield where, premise, hypothesis, label


def _sick(file: Path) -> Iterator[Row]:
    for where, (_, premise, hypothesis, _, label) in SICK.rows(file):
        yield where, premise, hypothesis, label


def _sample(folder: Path, part: str, count: int) -> Iterator[Row]:
    """Draw pairs of the sample's grammar by a random stream of their own."""
    world = load_world(folder)
    for number in range(count):
        pair = sick_pair(world, f"entailment {part}", number)
        yield f"{folder}, pair {number}", pair.first, pair.second, pair.judgment


def _table(file: Path) -> Iterator[Row]:
    if not file.is_file():
        todo = "Put the table there (data/raw/entailment/README.md has its columns), or correct the path."
        raise SemanticsError("does not exist", where=file, todo=todo)
    ending = Path(file.name.removesuffix(".gz")).suffix
    if ending not in (".csv", ".tsv", ".jsonl"):
        raise SemanticsError(f"ends in {ending or 'nothing'}", where=file, expected=".csv, .tsv or .jsonl")
    return _jsonl(file) if ending == ".jsonl" else _columns(file)
