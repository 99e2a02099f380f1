"""Reads lines and columns for all readers of SentEval's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sightword.errors import SemanticsError
from sightword.io.files import check_line_ends, require_regular

SICK_FILES = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
SICK_COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")


def read_lines(file: Path, encoding: str = "utf-8") -> list[str]:
    """Return the lines of a text file, split only at line feeds (texts hold other separators that Python splits at).

    SemanticsError if the file cannot be read, or a line is not in this encoding.
    """
    try:
        require_regular(file)
        raw = file.read_bytes().removeprefix(b"\xef\xbb\xbf")
        check_line_ends(raw.partition(b"\n")[0], file, SemanticsError)
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        where = f"{file}, line {raw[: error.start].count(10) + 1}"
        what = f"byte {raw[error.start]:#04x} is not {encoding.upper()}"
        raise SemanticsError(what, where=where, todo=f"Save the file as {encoding.upper()}.") from None
    except OSError as error:
        raise SemanticsError(f"cannot be read ({error.strerror or error})", where=file) from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if not lines[-1] else lines


def numbered(file: Path, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """Yield the place of each line, for messages, and the line; raise as :func:`read_lines`."""
    for number, line in enumerate(read_lines(file, encoding), start=1):
        yield f"{file}, line {number}", line


def read_columns(
    file: Path, columns: int, expected: str, *, header: Sequence[str] = (), strip: bool = False, or_more: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Yield the place of each line of a file with tabs, for messages, and its columns.

    Args:
        file: the file.
        columns: the number of columns; 0 for as many as the header has.
        expected: the columns in words, for messages.
        header: the names that the first line begins with; empty for a file without a header.
        strip: ignore white space at both ends of a line.
        or_more: accept more columns.

    SemanticsError if the file cannot be read, has another header, or a line has another number of columns.
    """
    lines = numbered(file)
    if header:
        _, first = next(lines, ("", ""))
        names = first.split("\t")
        if names[: len(header)] != list(header):
            what = "has another header" if first else "is empty"
            raise SemanticsError(what, where=f"{file}, line 1", expected=expected)
        columns = columns or len(names)
    for where, line in lines:
        row = (line.strip() if strip else line).split("\t")
        if len(row) < columns or (len(row) > columns and not or_more):
            raise SemanticsError(f"has {count(len(row), 'column')}", where=where, expected=f"{columns}: {expected}")
        yield where, row


def read_sick(file: Path, columns: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the columns of each row of a SICK file whose header begins with so many known names."""
    return read_columns(file, 0, f"{', '.join(SICK_COLUMNS)}, separated by tabs", header=SICK_COLUMNS[:columns])


def check_partners(file: Path, lines: int, partner: Path, partner_lines: int, expected: str) -> None:
    """Raise SemanticsError, with the first line without a partner, if two files differ in their number of lines."""
    if lines != partner_lines:
        shorter = min(lines, partner_lines)
        more = file if lines > shorter else partner
        what = f"has {count(lines, 'line')} for the {partner_lines} of {partner.name}; "
        what += f"the first without a partner is line {shorter + 1} of {more.name}"
        raise SemanticsError(what, where=file, expected=expected)


def sentence(tokens: Sequence[str]) -> str:
    """Return the tokens joined by single spaces; ``.`` without tokens, as in SentEval's own examples."""
    return " ".join(tokens) or "."


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 line``, ``2 lines``."""
    return f"{number} {noun if number == 1 else noun + 's'}"
