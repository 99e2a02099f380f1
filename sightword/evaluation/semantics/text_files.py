"""The tables and parallel files that several readers of SentEval's data share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sightword.errors import SemanticsError
from sightword.io.opening import lines
from sightword.io.tables import Table
from sightword.messages import plural

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
    """Yield the number of each line, and the line of each file.

    Args:
        files: with equally many lines.
        expected: the relation between the files, for messages.
        encodings: of the files; empty for UTF-8.

    Raises:
        SemanticsError: a file cannot be read (:func:`sightword.io.opening.lines`), or files differ in their number of
            lines; the message has the first line without a partner.
    """
    named = zip(files, encodings or ["utf-8"] * len(files), strict=True)
    found = [[line for _, line in lines(file, SemanticsError, encoding=name)] for file, name in named]
    for file, texts in zip(files[1:], found[1:], strict=True):
        check_partners(file, len(texts), files[0], len(found[0]), expected)
    yield from enumerate(zip(*found, strict=True), start=1)


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
