"""Tables of edges, and lists of labelled pairs: the split of a paper, or of one's own."""

from __future__ import annotations

import csv
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightword.errors import CorpusError
from sightword.hypernyms.data.taxonomy import Ids, Taxonomy, build
from sightword.io.files import Pathish, check_line_ends, read_packed
from sightword.io.mapping import mapping
from sightword.messages import guess, quote, short, warn_share

log = logging.getLogger(__name__)

_Labelled = tuple[tuple[str, str], bool, str]
"""Hyponym and hypernym, whether the pair is true, and the place for messages."""

OWN, LI, GANEA = "table", "li2019", "ganea2018"


@dataclass(frozen=True)
class PairList:
    """Labelled pairs of concepts."""

    hyponyms: Ids
    hypernyms: Ids
    labels: np.ndarray[tuple[int], np.dtype[np.bool_]]
    layout: str
    """``table``, ``li2019`` or ``ganea2018``."""


def read_edges(path: Pathish, relations: Collection[str]) -> Taxonomy:
    """Read a table of edges with the columns ``hyponym`` and ``hypernym``, and maybe ``relation``.

    The columns are separated by tabs or commas, and a cell may stand in double quotes; blanks around cells do not
    count. A file whose name ends in ``.gz`` is decompressed. Concepts are sorted by name. Rows of other relations than
    ``relations`` are left out.

    Raises:
        CorpusError: the table cannot be read, a column is missing or stands twice, a row has too few or too many cells,
            a cell is empty, or an edge is wrong.
    """
    where = Path(path)
    if where.is_dir():
        tables = sorted(file for file in where.iterdir() if file.name.endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz")))
        if len(tables) != 1:
            raise CorpusError(f"has {len(tables)} tables", where=where, expected="one .csv or .tsv file of edges")
        where = tables[0]
    rows = _rows(where)
    first, header = next(rows, (1, []))
    wanted = ("hyponym", "hypernym", "relation") if "relation" in header else ("hyponym", "hypernym")
    columns = _columns(header, wanted, where, first)
    edges = []
    for number, row in rows:
        low, high, *relation = _cells(row, columns, len(header), where, number)
        kind = relation[0] if relation else "hypernym"
        if kind in relations:
            edges.append((low, high, kind))
    return build(sorted({name for edge in edges for name in edge[:2]}), edges, where)


def read_pairs(path: Pathish, ids: dict[str, int]) -> PairList:
    """Read a list of labelled pairs, in one of three layouts.

    * a table with the columns ``hyponym``, ``hypernym`` and ``label`` (1 or 0);
    * Li et al. (2019): ``IsA``, hyponym, hypernym, label, without a header;
    * Ganea et al. (2018): ids of hypernym and hyponym, all true; the false ones stand in a second file, whose name has
      ``_neg`` behind the list's, and the names of the ids in the file ``vocab`` beside it.

    Args:
        path: the file; a name that ends in ``.gz`` is decompressed.
        ids: the id of each concept.

    Raises:
        CorpusError: the list cannot be read, a label is wrong, a pair has both labels, or a concept is
            unknown (with the row).
    """
    where = Path(path)
    rows = _rows(where)
    number, first = next(rows, (1, []))
    if len(first) == 2 and all(cell.isdigit() for cell in first):
        return _ganea(where, ids)
    if len(first) == 4 and first[0] == "IsA":
        rows, columns, layout = _rows(where), [1, 2, 3], LI
    else:
        columns, layout = _columns(first, ("hyponym", "hypernym", "label"), where, number), OWN
    found: list[_Labelled] = []
    for number, row in rows:
        low, high, label = _cells(row, columns, len(first), where, number)
        if label not in ("0", "1"):
            raise CorpusError(f"row {number} has the label {quote(label)}", where=where, expected="1 or 0")
        for name in (low, high):
            _check_known(name, ids, where, number)
        found.append(((low, high), label == "1", f"{where}, row {number}"))
    return _pair_list(found, ids, layout)


def _ganea(where: Path, ids: dict[str, int]) -> PairList:
    """Read a list of Ganea et al. (2018), and its false pairs where there are some."""
    base, _, part = where.name.removesuffix(".gz").rpartition(".")
    ending = ".gz" if where.name.endswith(".gz") else ""
    names = _vocabulary(where.with_name(f"{base}.vocab{ending}"), ids)
    parts = [(where, True)]
    negatives = where.with_name(f"{base}.{part}_neg{ending}")
    if negatives.is_file():
        parts.append((negatives, False))
    found: list[_Labelled] = []
    for file, label in parts:
        for number, row in _rows(file):
            place = f"{file}, row {number}"
            if len(row) != 2 or not all(cell in names for cell in row):
                raise CorpusError(
                    f"is {quote(row)}", where=place, expected="two numbers of the vocabulary, separated by a tab"
                )
            found.append(((names[row[1]], names[row[0]]), label, place))
    return _pair_list(found, ids, GANEA)


def _vocabulary(file: Path, ids: dict[str, int]) -> dict[str, str]:
    """Return the names of numbers, written as the file writes them."""
    records: list[tuple[str, str, str]] = []
    for number, row in _rows(file):
        if len(row) != 2 or not (row[0].isascii() and row[0].isdigit()):
            expected = "a number and a name, separated by a tab"
            raise CorpusError(f"is {quote(row)}", where=f"{file}, row {number}", expected=expected)
        _check_known(row[1], ids, file, number)
        records.append((row[0], row[1], f"{file}, row {number}"))
    todo = "Give each name a number of its own."
    mapping(((name, number, place) for number, name, place in records), "the name", "number", CorpusError, todo=todo)
    return mapping(records, "the number", "name", CorpusError, todo=todo)


def _pair_list(rows: Sequence[_Labelled], ids: dict[str, int], layout: str) -> PairList:
    """Return the pairs of rows, repeated ones too, and warn of pairs with both labels.

    Such pairs are kept: the false pairs of the released split of Vendrov et al. (2016) were drawn without a look at the
    true ones.
    """
    labels: dict[tuple[str, str], set[bool]] = {}
    for pair, label, _ in rows:
        labels.setdefault(pair, set()).add(label)
    both = [(pair, place) for pair, _, place in rows if len(labels[pair]) > 1]
    first = f"{' -> '.join(map(short, both[0][0]))}, {both[0][1]}" if both else ""
    warn_share(
        log, "%d of %d rows have a pair that is labelled both true and false, first %s", len(both), len(rows), first
    )
    low, high = (np.array([ids[pair[side]] for pair, _, _ in rows], np.int32) for side in (0, 1))
    return PairList(low, high, np.array([label for _, label, _ in rows], bool), layout)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells, without blanks around, of each row that is not blank.

    Rows end in LF or CR LF only: a name may hold other characters that end lines in Unicode.
    """
    data = read_packed(path, CorpusError)
    check_line_ends(data.partition(b"\n")[0], path, CorpusError)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusError(f"is not UTF-8 text (byte {error.start})", where=path, todo="Save it as UTF-8.") from None
    lines = text.split("\n")
    between = "\t" if "\t" in lines[0] else ","
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            # A reader for each line, so that a quotation mark without its other is an error of its own row.
            [row] = csv.reader([line.removesuffix("\r")], delimiter=between, skipinitialspace=True, strict=True)
        except csv.Error as error:
            what, todo = f"is not valid CSV ({error})", "Write a quotation mark in a quoted cell twice."
            raise CorpusError(what, where=f"{path}, row {number}", todo=todo) from None
        yield number, [cell.strip() for cell in row]


def _columns(header: list[str], wanted: tuple[str, ...], where: Path, number: int) -> list[int]:
    for name in wanted:
        if header.count(name) != 1:
            what = f"has {'no column' if name not in header else 'two columns'} {name}"
            expected = f"a header with {', '.join(wanted)}, each once"
            raise CorpusError(what, where=f"{where}, row {number}", expected=expected)
    return [header.index(name) for name in wanted]


def _cells(row: list[str], columns: list[int], width: int, where: Path, number: int) -> list[str]:
    """Return the cells of some columns; CorpusError if one is empty, or the row has not ``width`` cells."""
    if len(row) != width:
        raise CorpusError(f"row {number} has {len(row)} cells", where=where, expected=str(width))
    found = [row[column] for column in columns]
    if "" in found:
        todo = "Fill it in, or delete the row."
        raise CorpusError(f"row {number} has an empty cell {columns[found.index('')] + 1}", where=where, todo=todo)
    return found


def _check_known(name: str, ids: dict[str, int], where: Path, number: int) -> None:
    if name not in ids:
        raise CorpusError(f"row {number}: no concept {short(name)}{guess(name, ids)}", where=where)
