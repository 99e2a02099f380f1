"""Reads lines, sentences and rows of SICK for all readers of SentEval's files."""

from __future__ import annotations

from pathlib import Path

from sightword.errors import SemanticsError
from sightword.files import require_regular

SICK_FILES = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
SICK_COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")


def read_lines(file: Path, encoding: str = "utf-8") -> list[str]:
    """Return the lines of a text file, split only at line feeds (texts hold other separators that Python splits at).

    Raises:
        SemanticsError: the file cannot be read, or a line is not in this encoding.
    """
    try:
        require_regular(file)
        raw = file.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise SemanticsError(f"cannot be read ({error.strerror or error})", where=file) from None
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SemanticsError(
            f"byte {raw[error.start]:#04x} is not {encoding.upper()}",
            where=f"{file}, line {line}",
            todo=f"Save the file as {encoding.upper()}.",
        ) from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if not lines[-1] else lines


def read_sick(file: Path, columns: int) -> list[tuple[int, list[str]]]:
    """Return the rows of a SICK file with their line numbers, each with as many columns as the header.

    Args:
        file: one of :data:`SICK_FILES`.
        columns: the number of :data:`SICK_COLUMNS` that the header must begin with.

    Raises:
        SemanticsError: the file cannot be read, has another header, or a row has another number of columns.
    """
    lines = read_lines(file)
    header = lines[0].split("\t") if lines else []
    if tuple(header[:columns]) != SICK_COLUMNS[:columns]:
        raise SemanticsError(
            "has no header of SICK" if lines else "is empty",
            where=f"{file}, line 1",
            expected=f"{', '.join(SICK_COLUMNS)}, separated by tabs",
        )
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        row = line.split("\t")
        if len(row) != len(header):
            raise SemanticsError(
                f"has {count(len(row), 'column')}", where=f"{file}, line {number}", expected=f"{len(header)}"
            )
        rows.append((number, row))
    return rows


def check_partners(file: Path, lines: int, partner: Path, partner_lines: int, expected: str) -> None:
    """Check that two files have the same number of lines.

    Raises:
        SemanticsError: the lengths differ; the message names the first line without a partner.
    """
    if lines != partner_lines:
        shorter = min(lines, partner_lines)
        more = file if lines > shorter else partner
        raise SemanticsError(
            f"has {count(lines, 'line')} for the {partner_lines} of {partner.name}; the first without a partner "
            f"is line {shorter + 1} of {more.name}",
            where=file,
            expected=expected,
        )


def sentence(tokens: list[str]) -> str:
    """Return the tokens joined by single spaces; ``.`` without tokens, as in SentEval's own examples."""
    return " ".join(tokens) or "."


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 line``, ``2 lines``, ``2 classes``."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
