"""Labelled pairs of concepts: the closure's pairs split into training, dev and test, drawn or given as published lists;
false pairs; the baselines without training; and the folder that keeps a split.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.errors import CorpusError, FileFormatError
from sightword.hypernyms.data.taxonomy import Ids, Taxonomy, closure
from sightword.hypernyms.settings import TaxonomySettings
from sightword.io.files import Pathish, mapping, read_table, write_table
from sightword.io.saved import Format
from sightword.io.tables import Table, cells, whole
from sightword.messages import guess, quote, short, warn_share
from sightword.settings import SPLITS

log = logging.getLogger(__name__)

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Sides = tuple[Ids, Ids]

REPLACED = ("", "hyponym", "hypernym")
ROUNDS = 60
"""Random draws of false pairs before the remaining pairs are enumerated or left out."""
RELEASED = 4000
"""True pairs of the published test split."""
OWN, GANEA = "table", "ganea2018"
"""The layouts of given lists."""
TODO = "Run `make hypernyms` (without make: `rm -f hypernyms/.dvcignore && dvc repro hypernyms/dvc.yaml`)."
FORMAT = Format("taxonomy.json", 3, TODO, FileFormatError)
_TABLES = ("concepts.parquet", "edges.parquet", "pairs.parquet")
_BITS = 27

_Labelled = tuple[tuple[str, str], bool, str]
"""Hyponym and hypernym, whether the pair is true, and the place for messages."""

_OWN = Table(("hyponym", "hypernym", "label"), CorpusError, quotes=True)
_GANEA = Table(("hypernym", "hyponym"), CorpusError, header=False, separator="\t")
_VOCABULARY = Table(("number", "name"), CorpusError, header=False, separator="\t")


@dataclass(frozen=True)
class ConceptPairs:
    """Labelled pairs of one split."""

    hyponyms: Ids
    hypernyms: Ids
    labels: Bools
    direct: Bools  # whether the pair is an edge of the taxonomy
    replaced: NDArray[np.int8]
    """The replaced side of a false pair, as a place in :data:`REPLACED`; 0 for true pairs and where unknown."""

    def where(self, rows: Array) -> ConceptPairs:
        """Return some rows."""
        return ConceptPairs(*(getattr(self, name)[rows] for name in ConceptPairs.__dataclass_fields__))


class PairList(NamedTuple):
    """Labelled pairs of concepts; ``layout`` is :data:`OWN`, :data:`GANEA`, or ``drawn``."""

    hyponyms: Ids
    hypernyms: Ids
    labels: Bools
    layout: str


class PairSet:
    """A set of (N,) pairs of ids, with a quick test of membership: a hash first, bisection where the hash is set."""

    def __init__(self, hyponyms: Ids, hypernyms: Ids, concepts: int) -> None:
        self.concepts = concepts
        codes = np.sort(self._code(hyponyms, hypernyms))  # np.unique hashes, which takes fifty times as long
        self.codes = codes[np.diff(codes, prepend=-1) > 0]
        self._table = np.zeros(1 << (_BITS - 3), np.uint8)
        place = self._hash(self.codes)
        np.bitwise_or.at(self._table, place >> 3, np.left_shift(1, place & 7).astype(np.uint8))

    def has(self, hyponyms: Ids, hypernyms: Ids) -> Bools:
        """Return which of (N,) pairs are in the set."""
        codes = self._code(hyponyms, hypernyms)
        place = self._hash(codes)
        members: Bools = (self._table[place >> 3] >> (place & 7).astype(np.uint8)) & 1 != 0
        maybe = np.flatnonzero(members)
        at = np.searchsorted(self.codes, codes[maybe])
        members[maybe] = self.codes[np.minimum(at, len(self.codes) - 1)] == codes[maybe]
        return members

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of hypernyms and of hyponyms of each concept."""
        low, high = np.divmod(self.codes, self.concepts)
        return np.bincount(low, minlength=self.concepts), np.bincount(high, minlength=self.concepts)

    def _code(self, hyponyms: Ids, hypernyms: Ids) -> NDArray[np.int64]:
        return hyponyms.astype(np.int64) * self.concepts + hypernyms

    @staticmethod
    def _hash(codes: NDArray[np.int64]) -> NDArray[np.int64]:
        mixed = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(64 - _BITS)).astype(np.int64)


def corruptible(hyponyms: Ids, hypernyms: Ids, known: PairSet) -> Bools:
    """Return which of (N,) true pairs become a false pair of two concepts by some replacement of one side."""
    above, below = known.counts()
    others = known.concepts - 1
    possible: Bools = (below[hypernyms] < others) | (above[hyponyms] < others)
    return possible


def corrupt(
    hyponyms: Ids, hypernyms: Ids, known: PairSet | None, concepts: int, random: np.random.Generator
) -> tuple[Ids, Ids, Bools]:
    """Replace the hyponym or the hypernym of each of (N,) :func:`corruptible` pairs by a random concept.

    The side and the concept are drawn uniformly. If the result is in ``known`` or a pair of a concept with itself, both
    are drawn anew; without ``known`` the first draw is kept, as in the released code of Vendrov et al.
    Return hyponyms, hypernyms, and where the hyponym was replaced. ValueError if a pair is not corruptible.
    """
    low, high = hyponyms.copy(), hypernyms.copy()
    replaced = np.zeros(len(low), bool)
    left = np.arange(len(low))
    for _ in range(ROUNDS):
        side = random.integers(0, 2, len(left), dtype=np.uint8) == 0
        concept = random.integers(0, concepts, len(left), dtype=np.int32)
        low[left] = np.where(side, concept, hyponyms[left])
        high[left] = np.where(side, hypernyms[left], concept)
        replaced[left] = side
        if known is None:
            return low, high, replaced
        left = left[known.has(low[left], high[left]) | (low[left] == high[left])]
        if not len(left):
            return low, high, replaced
    every = np.arange(concepts, dtype=np.int32)
    for row in left:
        assert known is not None
        first = ~known.has(every, np.full(concepts, hypernyms[row])) & (every != hypernyms[row])
        second = ~known.has(np.full(concepts, hyponyms[row]), every) & (every != hyponyms[row])
        choice = random.choice(np.flatnonzero(np.append(first, second)))  # ValueError if there is none
        replaced[row] = choice < concepts
        low[row], high[row] = (choice, hypernyms[row]) if choice < concepts else (hyponyms[row], choice - concepts)
    return low, high, replaced


def inferable(pairs: ConceptPairs, known: Sequence[ConceptPairs], concepts: int) -> Bools:
    """Return which (N,) pairs are in the transitive closure of the true pairs of some splits."""
    low = np.concatenate([part.hyponyms[part.labels] for part in known])
    high = np.concatenate([part.hypernyms[part.labels] for part in known])
    ends = np.cumsum(np.bincount(low, minlength=concepts))[:-1]
    above = [part.tolist() for part in np.split(high[np.argsort(low, kind="stable")], ends)]
    reached: dict[int, set[int]] = {}
    for concept in set(pairs.hyponyms.tolist()):
        waiting, hypernyms = [concept], reached.setdefault(concept, set())
        while waiting:
            new = set(above[waiting.pop()]) - hypernyms
            hypernyms |= new
            waiting += new
    sides = zip(pairs.hyponyms.tolist(), pairs.hypernyms.tolist(), strict=True)
    return np.fromiter((high in reached[low] for low, high in sides), bool, len(pairs.labels))


def frequency(pairs: ConceptPairs, training: ConceptPairs, concepts: int) -> Array:
    """Return minus the number of training pairs with the same hypernym, (N,): the more frequent, the likelier."""
    count = np.bincount(training.hypernyms[training.labels], minlength=concepts)
    return -count[pairs.hypernyms].astype(np.float64)


def split(taxonomy: Taxonomy, settings: TaxonomySettings) -> tuple[dict[str, ConceptPairs], dict[str, Any]]:
    """Return the pairs of each split, and the counts that ``metrics/hypernyms/taxonomy.json`` has.

    Raises:
        CorpusError: there are too few pairs, or a given list is wrong or has a true pair that the closure lacks.
    """
    count = len(taxonomy.names)
    rows = closure(taxonomy, paths=settings.closure == "paths")
    true = PairSet(*rows, count)
    edges = PairSet(taxonomy.hyponyms, taxonomy.hypernyms, count)
    possible = corruptible(*rows, true)
    drawn = settings.dev_pairs is None or settings.test_pairs is None
    if drawn and not possible.all():
        log.warning("taxonomy: %d pairs that no false pair can be made of are in training only", (~possible).sum())
    parts = _drawn(rows, possible, true, settings) if drawn else _given(rows, true, taxonomy, settings)
    pairs = {name: _pairs(part, edges) for name, part in parts.items()}
    counts = _counts(taxonomy, rows, true, pairs)
    counts["protocol"] = _protocol(counts, settings, parts["test"].layout, pairs["train"])
    if settings.draws and drawn:
        others = (settings.model_copy(update={"split_seed": settings.split_seed + k}) for k in range(settings.draws))
        splits = ({n: _pairs(p, edges) for n, p in _drawn(rows, possible, true, one).items()} for one in others)
        counts["draws"] = spread([of_test(parts, true) for parts in splits])
    return pairs, counts


def _drawn(rows: Sides, possible: Bools, true: PairSet, settings: TaxonomySettings) -> dict[str, PairList]:
    """Draw test and dev from the rows, and false pairs for both."""
    wanted = settings.dev + settings.test
    if possible.sum() <= wanted:
        what, expected = f"the closure has {possible.sum()} pairs to draw from", "taxonomy.dev + taxonomy.test"
        raise CorpusError(
            what, where=settings.path, expected=f"more than {expected} = {wanted}", todo="Choose smaller splits."
        )
    random = np.random.default_rng(settings.split_seed)
    order = random.permutation(np.flatnonzero(possible))
    kept = np.ones(len(rows[0]), bool)
    parts = {}
    for name, places in (("dev", order[settings.test : wanted]), ("test", order[: settings.test])):
        sides = rows[0][places], rows[1][places]
        kept[places] = False
        low, high, _ = corrupt(*sides, true if settings.negatives == "filtered" else None, true.concepts, random)
        labels = np.repeat([True, False], len(low))
        parts[name] = PairList(np.append(sides[0], low), np.append(sides[1], high), labels, "drawn")
    return {"train": _all_true(rows, kept, "drawn"), **parts}


def _given(rows: Sides, true: PairSet, taxonomy: Taxonomy, settings: TaxonomySettings) -> dict[str, PairList]:
    """Read dev and test from lists; training is the rest of the closure's rows, or a list too."""
    ids = {name: place for place, name in enumerate(taxonomy.names)}
    parts = {}
    for name in SPLITS:
        file = getattr(settings, f"{name}_pairs")
        if file is None:
            continue
        path = Path(settings.lists) / file
        parts[name] = part = read_pairs(path, ids)
        strange = np.flatnonzero(part.labels & ~true.has(part.hyponyms, part.hypernyms))
        if len(strange):
            low, high = (taxonomy.names[side[strange[0]]] for side in (part.hyponyms, part.hypernyms))
            lacks = f"is labelled true, and the closure of {settings.path} lacks it: {low} -> {high}"
            raise CorpusError(f"pair {strange[0] + 1} {lacks}", where=path)
        if not part.labels.any() or (name != "train" and part.labels.all()):
            expected = "true pairs" if name == "train" else "true and false pairs"
            raise CorpusError("has pairs of one label only", where=path, expected=expected)
    dev, test = parts["dev"], parts["test"]
    again = PairSet(dev.hyponyms, dev.hypernyms, true.concepts).has(test.hyponyms, test.hypernyms)
    if again.any():
        log.warning(
            "taxonomy: %d of %d test pairs are dev pairs too, which choose the threshold", sum(again), len(again)
        )
    if "train" in parts:
        low, high, labels, layout = parts["train"]
        train = _all_true((low, high), labels, layout)
    else:
        train = _all_true(rows, _without(rows, [dev, test], true.concepts), test.layout)
    return {"train": train, "dev": dev, "test": test}


def _without(rows: Sides, parts: list[PairList], concepts: int) -> NDArray[np.int64]:
    """Return the rows that are left when each true pair of the parts takes one row with it."""
    codes = rows[0].astype(np.int64) * concepts + rows[1]
    taken = np.concatenate([(p.hyponyms.astype(np.int64) * concepts + p.hypernyms)[p.labels] for p in parts])
    pairs, counts = np.unique(taken, return_counts=True)
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], pairs)
    last = np.searchsorted(codes[order], pairs, side="right")
    dropped = [order[start : min(start + n, end)] for start, end, n in zip(first, last, counts, strict=True)]
    return np.setdiff1d(np.arange(len(codes)), np.concatenate(dropped))


def _all_true(sides: Sides, rows: Array, layout: str) -> PairList:
    low, high = (side[rows] for side in sides)
    return PairList(low, high, np.ones(len(low), bool), layout)


def _pairs(part: PairList, edges: PairSet) -> ConceptPairs:
    """Add the columns that follow from the taxonomy and from the order of true and false pairs."""
    low, high, labels, _ = part
    replaced = np.zeros(len(labels), np.int8)
    false, true = np.flatnonzero(~labels), np.flatnonzero(labels)
    if len(true) and len(false) % len(true) == 0:  # the k-th false pair belongs to the k-th true one
        origin = np.repeat(true, len(false) // len(true))
        first, second = low[false] != low[origin], high[false] != high[origin]
        if not (first & second).any():
            replaced[false] = np.where(second, 2, 1)
    return ConceptPairs(low, high, labels, edges.has(low, high) & labels, replaced)


def _counts(taxonomy: Taxonomy, rows: Sides, true: PairSet, pairs: Mapping[str, ConceptPairs]) -> dict[str, Any]:
    above, below = true.counts()
    parents = np.bincount(taxonomy.hyponyms, minlength=len(taxonomy.names))
    train = pairs["train"]
    training = PairSet(train.hyponyms, train.hypernyms, len(taxonomy.names))
    entry: dict[str, Any] = {
        "concepts": len(taxonomy.names),
        "edges": len(taxonomy.hyponyms),
        "relations": {name: taxonomy.relations.count(name) for name in dict.fromkeys(taxonomy.relations)},
        "doubled_edges": taxonomy.doubled,
        "roots": int((above == 0).sum()),
        "leaves": int((below == 0).sum()),
        "with_several_parents": int((parents > 1).sum()),
        "most_ancestors": int(above.max()),
        "pairs": len(true.codes),
        "rows": len(rows[0]),
        "doubled_rows": len(rows[0]) - len(true.codes),
        "train": len(train.labels),
    }
    for name in ("dev", "test"):
        part = pairs[name]
        wrong = true.has(part.hyponyms, part.hypernyms) & ~part.labels
        again = training.has(part.hyponyms, part.hypernyms) & part.labels
        entry[name] = {
            "true": int(part.labels.sum()),
            "false": int((~part.labels).sum()),
            "in_training": _percent(again.sum(), part.labels.sum()),
            "mislabelled": _percent(wrong.sum(), (~part.labels).sum()),
            "ceiling": _percent(len(wrong) - wrong.sum(), len(wrong)),
        }
    return entry


def _protocol(entry: dict[str, Any], settings: TaxonomySettings, layout: str, train: ConceptPairs) -> str:
    """Return the published protocol that the split follows; empty for none."""
    if settings.format == "sample" or entry["concepts"] <= 80_000:
        return ""
    if layout == GANEA:  # test has 5 % of the pairs that are no edges; training has 0, 10, 25, 50 or 90 %
        return f"{layout}-{round(5.0 * (~train.direct).sum() / entry['test']['true'])}"
    if any(entry[name][label] != RELEASED for name in ("dev", "test") for label in ("true", "false")):
        return ""
    if settings.closure == "paths" and settings.negatives == "as_drawn":
        return "released"
    clean = settings.closure == "distinct" and settings.negatives == "filtered"
    return "clean" if clean and not entry["test"]["mislabelled"] else ""


def _percent(part: Any, whole: Any) -> float:
    return round(100.0 * float(part) / float(whole), 4)


def of_test(parts: Mapping[str, ConceptPairs], true: PairSet) -> dict[str, float]:
    """Return shares of the test pairs of a split in percent; ``true`` is the closure.

    Of the true pairs those that are training pairs too (``in_training``) and those that are direct edges (``direct``);
    of the false pairs those that the closure has (``mislabelled``), and of the false pairs with another hyponym
    (``mislabelled_hyponym``); the accuracy of a truthful classifier (``ceiling``) and of the transitive closure of
    training and dev (``closure``). A share of no pair is 0.
    """
    test, train = parts["test"], parts["train"]
    wrong = true.has(test.hyponyms, test.hypernyms) & ~test.labels
    in_training = PairSet(train.hyponyms, train.hypernyms, true.concepts).has(test.hyponyms, test.hypernyms)
    shares = {
        "in_training": in_training[test.labels],
        "direct": test.direct[test.labels],
        "mislabelled": wrong[~test.labels],
        "mislabelled_hyponym": wrong[test.replaced == 1],
        "ceiling": ~wrong,
        "closure": inferable(test, [train, parts["dev"]], true.concepts) == test.labels,
    }
    return {name: 100.0 * float(share.sum()) / max(len(share), 1) for name, share in shares.items()}


def spread(draws: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the ``number`` of draws, and of each key ``mean``, ``deviation`` (of a sample; 0 of a single draw),
    ``lowest`` and ``highest``.
    """
    summary: dict[str, Any] = {"number": len(draws)}
    for name in draws[0]:
        values = np.array([draw[name] for draw in draws])
        numbers = (values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0, values.min(), values.max())
        named = zip(("mean", "deviation", "lowest", "highest"), numbers, strict=True)
        summary[name] = {key: round(float(number), 4) for key, number in named}
    return summary


def read_pairs(path: Pathish, ids: dict[str, int]) -> PairList:
    """Read a list of labelled pairs, plain or ``.gz``, in one of two layouts.

    * a table with the columns ``hyponym``, ``hypernym`` and ``label`` (1 or 0);
    * Ganea et al. (2018): ids of hypernym and hyponym, all true; the false ones are in a second file with ``_neg``
      behind the list's name, and the names of the ids in the file ``vocab``.

    Raises:
        CorpusError: the list cannot be read, a label is wrong, or a concept is not in ``ids`` (with the row).
    """
    where = Path(path)
    _, first = next(cells(where, CorpusError), (1, []))
    if len(first) == 2 and all(cell.strip().isdecimal() for cell in first):
        return _ganea(where, ids)
    rows: list[_Labelled] = []
    for place, (low, high, label) in _OWN.rows(where):
        if label not in ("0", "1"):
            raise CorpusError(f"the label is {quote(label)}", where=place, expected="1 or 0")
        for name in (low, high):
            _check_known(name, ids, place)
        rows.append(((low, high), label == "1", place))
    return _pair_list(rows, ids, OWN)


def _ganea(where: Path, ids: dict[str, int]) -> PairList:
    """Read a list of Ganea et al. (2018), and the list of its false pairs if there is one."""
    base, _, part = where.name.removesuffix(".gz").rpartition(".")
    ending = ".gz" if where.name.endswith(".gz") else ""
    names = _vocabulary(where.with_name(f"{base}.vocab{ending}"), ids)
    negatives = where.with_name(f"{base}.{part}_neg{ending}")
    rows: list[_Labelled] = []
    for file, label in ((where, True), *([(negatives, False)] if negatives.is_file() else [])):
        for place, (high, low) in _GANEA.rows(file):
            if high not in names or low not in names:
                what = f"{quote(high if high not in names else low)} is not in the vocabulary"
                raise CorpusError(what, where=place, expected="two numbers of the vocabulary, separated by a tab")
            rows.append(((names[low], names[high]), label, place))
    return _pair_list(rows, ids, GANEA)


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


def write_prepared(
    folder: Pathish, taxonomy: Taxonomy, pairs: Mapping[str, ConceptPairs], counts: Mapping[str, Any]
) -> None:
    """Write ``concepts.parquet``, ``edges.parquet``, ``pairs.parquet`` and ``taxonomy.json`` into a folder."""
    place = Path(folder)
    ids = pa.array(range(len(taxonomy.names)), pa.int32())
    concepts = {"id": ids, "name": taxonomy.names, "words": taxonomy.words, "gloss": taxonomy.glosses}
    write_table(place / "concepts.parquet", pa.table(concepts))
    edges = {"hyponym": taxonomy.hyponyms, "hypernym": taxonomy.hypernyms, "relation": taxonomy.relations}
    write_table(place / "edges.parquet", pa.table(edges))

    def joined(name: str) -> Array:
        return np.concatenate([getattr(pairs[part], name) for part in SPLITS])

    columns = {
        "hyponym": joined("hyponyms"),
        "hypernym": joined("hypernyms"),
        "split": pa.array([name for name in SPLITS for _ in range(len(pairs[name].labels))], pa.string()),
        "label": joined("labels"),
        "direct": joined("direct"),
        "replaced": pa.array([REPLACED[side] for side in joined("replaced").tolist()], pa.string()),
    }
    write_table(place / "pairs.parquet", pa.table(columns))
    FORMAT.write(place, counts, _TABLES)


def read_prepared(folder: Pathish) -> tuple[Taxonomy, dict[str, ConceptPairs], dict[str, Any]]:
    """Read the taxonomy, the pairs of each split, and the counts that :func:`write_prepared` wrote.

    Raises:
        FileFormatError: a file is missing, damaged, or of another schema.
    """
    import pyarrow.compute as pc

    place = Path(folder)
    counts, listed = FORMAT.read(place)
    FORMAT.require(listed, *_TABLES, where=place)
    concepts = read_table(place / "concepts.parquet", ("name", "words", "gloss"), todo=TODO)
    edges = read_table(place / "edges.parquet", ("hyponym", "hypernym", "relation"), todo=TODO)
    columns = ("hyponym", "hypernym", "label", "direct", "split", "replaced")
    table = read_table(place / "pairs.parquet", columns, todo=TODO)
    low, high = (edges[name].to_numpy() for name in ("hyponym", "hypernym"))
    names, words, glosses = (concepts[name].to_pylist() for name in ("name", "words", "gloss"))
    taxonomy = Taxonomy(names, words, glosses, low, high, edges["relation"].to_pylist())
    low, high, labels, direct = (table[name].to_numpy() for name in columns[:4])
    of_split, replaced = (
        pc.index_in(table[name], pa.array(names)).to_numpy().astype(np.int8)
        for name, names in (("split", SPLITS), ("replaced", REPLACED))
    )
    every = ConceptPairs(low, high, labels, direct, replaced)
    return taxonomy, {name: every.where(of_split == code) for code, name in enumerate(SPLITS)}, counts
