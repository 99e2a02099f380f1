"""The ledger of scorings: which encoders were scored on which split.

A test split chooses a little each time somebody looks at its scores. So each stage that scores a split other than train
and dev enters the scoring in a text file that git keeps beside the numbers. A scoring is known by its hashes, and the
file is the sorted set of all scorings: the same scoring again adds nothing, and no times or machines are in the file.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import hashlib
import io
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from sightword.errors import FileFormatError
from sightword.io.files import Pathish, canonical_json, read_text, sha256_file, write_text
from sightword.io.saved import SUMS
from sightword.io.tables import cells
from sightword.messages import and_more, plural, quote

FILE = "scorings.csv"
"""The name of every ledger."""
PICTURES = "pictures"
"""What a split of pictures and captions is of."""
DIGITS = 16
"""The hexadecimal digits of a hash that are kept."""
MOST = 30
"""Names of tasks in a line."""
EPOCHS = "epochs"
"""The stage that scores the snapshot of each kept epoch. Nothing is chosen by these scores, so they count apart."""
OPEN = ("train", "dev")
"""The splits whose scores may choose, and are not counted."""

_NAME, _HASH = (".+", "a name"), (f"[0-9a-f]{{{DIGITS}}}", f"{DIGITS} digits from 0 to f")
_CELLS = {
    "split": _NAME,
    "of": _NAME,
    "items": ("[0-9]{1,18}", "a whole number"),
    "rows": _HASH,
    "encoder": _HASH,
    "recipe": (f"({_HASH[0]})?", f"{_HASH[1]}, or nothing"),
    "stage": (".*", "a name"),
}
"""The pattern of each column, and the words for it."""
_TODO = "`git checkout -- {}` brings the ledger of the last commit back."


@dataclass(frozen=True, order=True)
class Scoring:
    """One encoder, scored on one split; a row of the ledger."""

    split: str
    """Such as ``test``."""
    of: str
    """What the split is of: ``pictures`` with their captions, or the name of a task."""
    items: int
    """The number of captions, pairs or examples of the split."""
    rows: str
    """The hash of the split (:func:`digest`)."""
    encoder: str
    """The hash of the encoder (:func:`hash_of`)."""
    recipe: str = ""
    """The hash of the parameters of the stage and of the stages before it; empty where they are not known."""
    stage: str = ""


Enter = Callable[[Sequence[Scoring]], Sequence[Scoring]]
"""Enters scorings, and returns all that are known."""


@dataclass(frozen=True)
class Count:
    """How often a split was scored."""

    scorings: int
    """Of encoders."""
    encoders: int
    """The number of different encoders."""
    epochs: int = 0
    """The number of different snapshots of single epochs that were scored too."""

    def __str__(self) -> str:
        times = {1: " once", 2: " twice"}.get(self.scorings, f" {self.scorings:,} times")
        return f"scored{times if self.scorings else ''} so far, with {self.of}"

    @property
    def of(self) -> str:
        """What was scored, in words."""
        encoders = plural(f"{self.encoders:,}", "encoder")
        if not self.epochs:
            return encoders
        snapshots = f"{plural(f'{self.epochs:,}', 'snapshot')} of single epochs"
        return f"{encoders} and {snapshots}" if self.encoders else snapshots


def digest(rows: Iterable[Sequence[object]]) -> str:
    """Return the hash of the rows of a split, of texts and numbers; their order does not count."""
    sha256 = hashlib.sha256()
    for line in sorted(map(canonical_json, rows)):
        sha256.update(f"{line}\n".encode())
    return sha256.hexdigest()[:DIGITS]


def hash_of(folder: Pathish) -> str:
    """Return the hash of a saved encoder: of its checksums; FileFormatError without them."""
    return sha256_file(Path(folder) / SUMS)[:DIGITS]


def scored(split: str, of: str, rows: Collection[Sequence[object]], encoder: str) -> list[Scoring]:
    """Return the scoring of an encoder on the rows of a split; none for the splits in :data:`OPEN`."""
    return [] if split in OPEN else [Scoring(split, of, len(rows), digest(rows), encoder)]


def is_whole(scoring: Scoring) -> bool:
    """Return whether each value of a scoring has the type and the form of its column."""
    values = {name: getattr(scoring, name) for name in _CELLS}
    typed = all(type(value) is (int if name == "items" else str) for name, value in values.items())
    return typed and all(re.fullmatch(pattern, str(values[name])) for name, (pattern, _) in _CELLS.items())


def alone(scorings: Sequence[Scoring]) -> Sequence[Scoring]:
    """Return scorings as if nothing else were known, and keep none: for a stage that runs outside of a project."""
    return scorings


def read(path: Pathish) -> list[Scoring]:
    """Read a ledger, sorted; empty without the file; FileFormatError, with the line, if it was edited or damaged."""
    place = Path(path)
    if not place.exists():
        return []
    todo, names = _TODO.format(path), [one.name for one in fields(Scoring)]
    rows = cells(place, FileFormatError, separator=",", todo=todo)
    number, header = next(rows, (1, []))
    if header != names:
        where, columns = f"{path}, line {number}", ",".join(header)
        raise FileFormatError(f"has the header {quote(columns)}", where=where, expected=",".join(names), todo=todo)
    scorings: set[Scoring] = set()
    for number, row in rows:
        where = f"{path}, line {number}"
        if len(row) != len(names):
            expected = f"{len(names)}: {', '.join(names)}"
            raise FileFormatError(f"has {plural(len(row), 'cell')}", where=where, expected=expected, todo=todo)
        for name, value in zip(names, row, strict=True):
            pattern, expected = _CELLS[name]
            if not re.fullmatch(pattern, value):
                raise FileFormatError(f"{name} is {quote(value)}", where=where, expected=expected, todo=todo)
        split, of, items, *hashes = row
        scorings.add(Scoring(split, of, int(items), *hashes))
    return sorted(scorings)


def add(path: Pathish, scorings: Iterable[Scoring]) -> list[Scoring]:
    """Add scorings to a ledger, which is made where it is missing, and return all in it, sorted.

    The file changes whole or not at all, and only by a new scoring or to be in order, as after a merge of git; several
    processes may add to it at once. FileFormatError if it was edited or damaged; it stays as it is.
    """
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    with _locked(place.parent):
        entered = sorted({*read(place), *scorings})
        if not place.exists() or read_text(place) != text(entered):
            write_text(place, text(entered))
    return entered


def text(scorings: Iterable[Scoring]) -> str:
    """Return the content of a ledger."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([one.name for one in fields(Scoring)])
    writer.writerows(map(astuple, sorted(set(scorings))))
    return buffer.getvalue()


def count(scorings: Iterable[Scoring], of: str, rows: str) -> Count:
    """Count the scorings of one split, which is known by what it is of and by its hash."""
    every = [one for one in scorings if (one.of, one.rows) == (of, rows)]
    own = [one for one in every if one.stage != EPOCHS]
    snapshots = {one.encoder for one in every if one.stage == EPOCHS}
    return Count(len(own), len({one.encoder for one in own}), len(snapshots))


def count_of(entered: Sequence[Scoring], known: Iterable[Scoring]) -> str:
    """Return the count, in words, of the split that was entered; empty where nothing was, as for dev."""
    if not entered:
        return ""
    first = entered[0]
    return in_words({(first.split, first.of): count(known, first.of, first.rows)})


def of_encoder(scorings: Sequence[Scoring], encoder: str) -> dict[tuple[str, str], Count]:
    """Return the count of each split on which an encoder was scored, by the split's name and what it is of.

    Of several splits of one name, such as of two corpora, the one that was scored most often counts.
    """
    counts: dict[tuple[str, str], Count] = {}
    for one in scorings:
        if one.encoder == encoder:
            now, key = count(scorings, one.of, one.rows), (one.split, one.of)
            if key not in counts or now.scorings > counts[key].scorings:
                counts[key] = now
    return counts


def in_words(counts: Mapping[tuple[str, str], Count]) -> str:
    """Return the numbers of encoders in words, by split and by what it is of; equal numbers stand together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for (split, of), one in counts.items():
        groups.setdefault((split, one.of), []).append(of)
    return "; ".join(
        f"the {split} part of {and_more(names, MOST)} with {scored}" for (split, scored), names in groups.items()
    )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; where the file system has none, go on without it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
