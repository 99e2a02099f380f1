"""Tables of edges, and lists of labelled pairs: the split of a paper, or of one's own."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightword.errors import CorpusError
from sightword.hypernyms.data.taxonomy import Ids, Taxonomy, build
from sightword.io.files import Pathish
from sightword.io.mapping import mapping
from sightword.io.opening import files_in
from sightword.io.tables import Table, cells, whole
from sightword.messages import guess, quote, short, warn_share

log = logging.getLogger(__name__)

_Labelled = tuple[tuple[str, str], bool, str]
"""Hyponym and hypernym, whether the pair is true, and the place for messages."""

OWN, LI, GANEA = "table", "li2019", "ganea2018"

_EDGES = Table(("hyponym", "hypernym", "relation"), CorpusError, optional=("relation",), quotes=True)
_OWN = Table(("hyponym", "hypernym", "label"), CorpusError, quotes=True)
_LI = Table(("IsA", "hyponym", "hypernym", "label"), CorpusError, header=False, quotes=True)
_GANEA = Table(("hypernym", "hyponym"), CorpusError, header=False, separator="\t")
_VOCABULARY = Table(("number", "name"), CorpusError, header=False, separator="\t")


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
        tables = files_in(where, "*.csv", "*.tsv", "*.csv.gz", "*.tsv.gz")
        if len(tables) != 1:
            raise CorpusError(f"has {len(tables)} tables", where=where, expected="one .csv or .tsv file of edges")
        where = tables[0]
    found = [(low, high, relation or "hypernym") for _, (low, high, relation) in _EDGES.rows(where)]
    edges = [edge for edge in found if edge[2] in relations]
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
    _, first = next(cells(where, CorpusError), (1, []))
    if len(first) == 2 and all(cell.strip().isdecimal() for cell in first):
        return _ganea(where, ids)
    layout = LI if len(first) == 4 and first[0].strip() == "IsA" else OWN
    found: list[_Labelled] = []
    for place, (*_, low, high, label) in (_LI if layout == LI else _OWN).rows(where):
        if label not in ("0", "1"):
            raise CorpusError(f"the label is {quote(label)}", where=place, expected="1 or 0")
        for name in (low, high):
            _check_known(name, ids, place)
        found.append(((low, high), label == "1", place))
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
        for place, (high, low) in _GANEA.rows(file):
            if high not in names or low not in names:
                what = f"{quote(high if high not in names else low)} is not in the vocabulary"
                raise CorpusError(what, where=place, expected="two numbers of the vocabulary, separated by a tab")
            found.append(((names[low], names[high]), label, place))
    return _pair_list(found, ids, GANEA)


def _vocabulary(file: Path, ids: dict[str, int]) -> dict[str, str]:
    """Return the names of numbers, written as the file writes them."""
    records: list[tuple[str, str, str]] = []
    for place, (number, name) in _VOCABULARY.rows(file):
        whole(number, place, "the number", CorpusError)
        _check_known(name, ids, place)
        records.append((number, name, place))
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


def _check_known(name: str, ids: dict[str, int], where: str) -> None:
    if name not in ids:
        raise CorpusError(f"no concept {short(name)}{guess(name, ids)}", where=where)
