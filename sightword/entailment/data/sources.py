"""Readers of labelled sentence pairs: SNLI, MultiNLI, SICK, tables, and the sample's own."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sightword.corpus.sample.sentences import sick_pair
from sightword.corpus.sample.world import load_world
from sightword.entailment.data.pairs import LABELS
from sightword.entailment.data.settings import Source
from sightword.errors import SemanticsError
from sightword.evaluation.semantics.text_files import (
    SICK_FILES,
    check_partners,
    numbered,
    read_columns,
    read_lines,
    read_sick,
)
from sightword.io.files import parse_json
from sightword.messages import and_more, quote

Row = tuple[str, str, str, str]
"""The place of a pair for messages, its premise, its hypothesis, and its label as the file spells it."""

COLUMNS = (("premise", "sentence1"), ("hypothesis", "sentence2"), ("label", "gold_label"))
"""The accepted names of the columns of a table."""
_UNDECIDED = ("-", "undecided")
_SNLI_COLUMNS = ("gold_label", "sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse",
                 "sentence1", "sentence2")  # fmt: skip
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
    labels = list(numbered(files[0]))
    texts = [list(numbered(file)) for file in files[1:]]
    for file, lines in zip(files[1:], texts, strict=True):
        check_partners(file, len(lines), files[0], len(labels), "one sentence for each label")
    for (where, label), (of_premise, premise), (of_hypothesis, hypothesis) in zip(labels, *texts, strict=True):
        yield where, _filled(premise, "premise", of_premise), _filled(hypothesis, "hypothesis", of_hypothesis), label


def _columns(file: Path) -> Iterator[Row]:
    expected = f"{', '.join(_SNLI_COLUMNS)}, .., separated by tabs"
    for where, row in read_columns(file, len(_SNLI_COLUMNS), expected, header=_SNLI_COLUMNS, or_more=True):
        yield where, row[5], row[6], row[0]


def _jsonl(file: Path) -> Iterator[Row]:
    for where, line in numbered(file):
        if not line.strip():
            continue
        try:
            record = parse_json(line, SemanticsError, where)
        except (ValueError, RecursionError):
            raise SemanticsError("is not JSON", where=where, expected="an object on each line") from None
        yield _record(record if isinstance(record, dict) else {}, where)


def _record(record: dict[str, Any], where: str) -> Row:
    found = []
    for names in COLUMNS:
        name = _only(names, list(record), where)
        value = None if name is None else record[name]
        if not isinstance(value, str):
            raise SemanticsError(f"has no text {' or '.join(names)}", where=where)
        if any("\ud800" <= character <= "\udfff" for character in value):
            todo = "Write the whole character, or delete the half."
            raise SemanticsError(f"has half a character in {names[0]} (\\ud800 to \\udfff)", where=where, todo=todo)
        found.append(value)
    return where, found[0], found[1], found[2]


def _sick(file: Path) -> Iterator[Row]:
    for where, row in read_sick(file, 5):
        yield where, row[1], row[2], row[4]


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
    if file.suffix == ".jsonl":
        yield from _jsonl(file)
        return
    if file.suffix not in (".csv", ".tsv"):
        raise SemanticsError(f"ends in {file.suffix or 'nothing'}", where=file, expected=".csv, .tsv or .jsonl")
    rows = (_tabs if file.suffix == ".tsv" else _commas)(file)
    _, header = next(rows, ("", []))
    names = [_only(accepted, header, f"{file}, line 1") for accepted in COLUMNS]
    if None in names:
        missing = " or ".join(COLUMNS[names.index(None)])
        raise SemanticsError(f"has no column {missing} (it has: {and_more(header, 20)})", where=f"{file}, line 1")
    places = [header.index(str(name)) for name in names]
    for where, row in rows:
        if len(row) != len(header):
            raise SemanticsError(f"has {len(row)} columns", where=where, expected=str(len(header)))
        yield where, row[places[0]], row[places[1]], row[places[2]]


def _only(accepted: Sequence[str], header: Sequence[str], where: str) -> str | None:
    """Return the name among the accepted ones that a header or an object has; SemanticsError for two columns."""
    found = [name for name in header if name in accepted]
    if len(found) > 1:
        what = f"has the {accepted[0]} in two columns: {' and '.join(found)}"
        raise SemanticsError(what, where=where, expected="one of them", todo="Delete or rename the other column.")
    return found[0] if found else None


def _tabs(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the cells of each line; quotation marks are signs of the sentences."""
    for where, line in numbered(file):
        if line:
            yield where, line.split("\t")


def _commas(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the cells of each row; a cell in quotation marks can have several lines."""
    reader = csv.reader((f"{line}\n" for line in read_lines(file)), strict=True)
    try:
        for row in reader:
            if row:
                yield f"{file}, line {reader.line_num}", row
    except csv.Error as error:
        what, todo = f"is not valid CSV ({error})", "Look for a quotation mark without its partner."
        raise SemanticsError(what, where=f"{file}, line {reader.line_num}", todo=todo) from None
