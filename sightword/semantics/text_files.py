"""What the readers of SentEval's files share: lines, sentences, and the rows of SICK."""

from __future__ import annotations

from pathlib import Path

from sightword.errors import SemanticsError
from sightword.files import require_regular

SICK_FILES = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
SICK_COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")


def read_lines(file: Path, encoding: str = "utf-8") -> list[str]:
    """The lines of a text file; only line feeds end a line (texts hold other separators Python splits at).

    Raises:
        SemanticsError: the file cannot be read, or is not in this encoding (with the line).
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
    """The rows of a file of SICK with their line numbers, each split into as many columns as its header has.

    Args:
        file: one of :data:`SICK_FILES`.
        columns: how many of :data:`SICK_COLUMNS` the header must begin with.

    Raises:
        SemanticsError: it cannot be read, has another header, or a row has more or fewer columns.
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
    """Two files that belong together line by line.

    Raises:
        SemanticsError: they differ in length; it names the first line without a partner.
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
    """The tokens joined by single spaces; ``.`` where there is none, as in SentEval's own examples."""
    return " ".join(tokens) or "."


def count(number: int, noun: str) -> str:
    """A number with its noun: ``1 line``, ``2 lines``, ``2 classes``."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
