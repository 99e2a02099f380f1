"""STS Benchmark in other languages: the machine translations stsb-multi-mt, and pairs of two languages.

The files have the same rows in the same order in each language, so that the first sentence of one language and the
second of another make a cross-lingual pair.
"""

from __future__ import annotations

from pathlib import Path

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.settings import languages_of
from sightword.io.tables import Table, number
from sightword.messages import plural

FOLDER = "STS/STSBenchmark-multi"
_PARTS = ("train", "dev", "test")
_TABLE = Table(
    ("sentence1", "sentence2", "score"),
    SemanticsError,
    header=False,
    separator=",",
    quotes=True,
)

_Row = tuple[str, str, float]


def of_languages(name: str) -> tuple[str, str] | None:
    """Return the languages of the first and of the second sentences of a task; None for one without a language, and
    SemanticsError for an unknown language.
    """
    try:
        return languages_of(name)
    except ValueError as error:
        raise SemanticsError(str(error), where=f"the task {name}") from None


def language_files(name: str, downstream: Path) -> list[Path]:
    """Return the files of a task: train, dev and test of the first language, and then of the second, if it is another;
    each with the ending ``.csv``, or ``.csv.gz`` where only that is there.
    """
    languages = of_languages(name) or ()
    plain = [downstream / FOLDER / f"stsb-{one}-{part}.csv" for one in dict.fromkeys(languages) for part in _PARTS]
    packed = [file.with_name(f"{file.name}.gz") for file in plain]
    return [gz if gz.is_file() and not file.is_file() else file for file, gz in zip(plain, packed, strict=True)]


def read_languages(name: str, downstream: Path) -> list[list[_Row]]:
    """Read train, dev and test of a task: both sentences as in the file, and the score from 0 to 5.

    Raises:
        SemanticsError: a file cannot be read; the files of two languages have unequal numbers of rows, or other scores
            in a row.
    """
    files = language_files(name, downstream)
    firsts, seconds = files[: len(_PARTS)], files[-len(_PARTS) :]
    if firsts == seconds:
        return [[(first, second, score) for _, first, second, score in _read(file)] for file in firsts]
    return [_across(first, second) for first, second in zip(firsts, seconds, strict=True)]


def _across(file: Path, other: Path) -> list[_Row]:
    """Return the first sentences of a file with the second ones of another."""
    rows, others = _read(file), _read(other)
    expected = "the same rows in the same order in both languages"
    todo = "Fetch the data set stsb-multi-mt again."
    if len(rows) != len(others):
        what = f"has {plural(len(others), 'row')} for the {len(rows)} of {file.name}"
        raise SemanticsError(what, where=other, expected=expected, todo=todo)
    for (_, _, _, score), (where, _, _, found) in zip(rows, others, strict=True):
        if score != found:
            what = f"has the score {found:g} where {file.name} has {score:g}"
            raise SemanticsError(what, where=where, expected=expected, todo=todo)
    return [(first, second, score) for (_, first, _, score), (_, _, second, _) in zip(rows, others, strict=True)]


def _read(file: Path) -> list[tuple[str, str, str, float]]:
    """Return the place, both sentences and the score of each row."""
    return [
        (where, first, second, number(score, where, "the score", SemanticsError, low=0, high=5))
        for where, (first, second, score) in _TABLE.rows(file)
    ]
