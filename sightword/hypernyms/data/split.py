"""The pairs of a taxonomy's closure, split into training, dev and test, with false pairs for dev and test."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.errors import CorpusError
from sightword.hypernyms.data.corruption import Bools, PairSet, corrupt, corruptible
from sightword.hypernyms.data.draws import of_test, spread
from sightword.hypernyms.data.pairs import ConceptPairs
from sightword.hypernyms.data.settings import TaxonomySettings
from sightword.hypernyms.data.tables import GANEA, LI, PairList, read_pairs
from sightword.hypernyms.data.taxonomy import Ids, Taxonomy, closure
from sightword.settings import SPLITS

log = logging.getLogger(__name__)

RELEASED = 4000
"""True pairs of the published test split."""


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
    if not possible.all():
        log.warning("taxonomy: %d pairs that no false pair can be made of are in training only", (~possible).sum())
    if settings.dev_pairs is None or settings.test_pairs is None:
        parts, layout = _drawn(rows, possible, true, settings), "drawn"
    else:
        parts, layout = _given(rows, true, taxonomy, settings)
    found = {name: _pairs(part, edges) for name, part in parts.items()}
    counts = _counts(taxonomy, rows, true, found, settings, layout)
    if settings.draws and layout == "drawn":
        others = (settings.model_copy(update={"split_seed": settings.split_seed + k}) for k in range(settings.draws))
        drawn = ({n: _pairs(p, edges) for n, p in _drawn(rows, possible, true, one).items()} for one in others)
        counts["draws"] = spread([of_test(parts, true) for parts in drawn])
    return found, counts


def _drawn(rows: tuple[Ids, Ids], possible: Bools, true: PairSet, settings: TaxonomySettings) -> dict[str, PairList]:
    """Draw test and dev from the rows, and false pairs for both."""
    wanted = settings.dev + settings.test
    if possible.sum() <= wanted:
        raise CorpusError(
            f"the closure has {possible.sum()} pairs to draw from",
            where=settings.path,
            expected=f"more than taxonomy.dev + taxonomy.test = {wanted}",
            todo="Choose smaller splits.",
        )
    random = np.random.default_rng(settings.split_seed)
    order = random.permutation(np.flatnonzero(possible))
    places = {"test": order[: settings.test], "dev": order[settings.test : wanted]}
    kept = np.ones(len(rows[0]), bool)
    found = {}
    for name in ("dev", "test"):
        own = rows[0][places[name]], rows[1][places[name]]
        kept[places[name]] = False
        known = true if settings.negatives == "filtered" else None
        low, high, _ = corrupt(*own, known, true.concepts, random)
        found[name] = PairList(
            np.append(own[0], low), np.append(own[1], high), np.repeat([True, False], len(low)), "drawn"
        )
    return {"train": _all_true(rows[0][kept], rows[1][kept], "drawn"), **found}


def _given(
    rows: tuple[Ids, Ids], true: PairSet, taxonomy: Taxonomy, settings: TaxonomySettings
) -> tuple[dict[str, PairList], str]:
    """Read given lists; training is the rest of the closure's rows, or a list too."""
    ids = taxonomy.id_of()
    found = {}
    for name in SPLITS:
        file = getattr(settings, f"{name}_pairs")
        if file is None:
            continue
        path = Path(settings.lists) / file
        found[name] = part = read_pairs(path, ids)
        strange = np.flatnonzero(part.labels & ~true.has(part.hyponyms, part.hypernyms))
        if len(strange):
            low, high = (taxonomy.names[side[strange[0]]] for side in (part.hyponyms, part.hypernyms))
            raise CorpusError(
                f"pair {strange[0] + 1} is labelled true, and the closure of {settings.path} lacks it: {low} -> {high}",
                where=path,
            )
        if name != "train" and (part.labels.all() or not part.labels.any()):
            raise CorpusError("has pairs of one label only", where=path, expected="true and false pairs")
    layout = found["test"].layout
    if "train" in found:
        own = found["train"].labels
        train = _all_true(found["train"].hyponyms[own], found["train"].hypernyms[own], layout)
    else:
        kept = _without(rows, [found["dev"], found["test"]], true.concepts)
        train = _all_true(rows[0][kept], rows[1][kept], layout)
    return {"train": train, "dev": found["dev"], "test": found["test"]}, layout


def _without(rows: tuple[Ids, Ids], parts: list[PairList], concepts: int) -> NDArray[np.int64]:
    """Return the rows that are left when each true pair of the parts takes one row with it."""
    codes = rows[0].astype(np.int64) * concepts + rows[1]
    taken = np.concatenate([(p.hyponyms.astype(np.int64) * concepts + p.hypernyms)[p.labels] for p in parts])
    pairs, counts = np.unique(taken, return_counts=True)
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], pairs)
    last = np.searchsorted(codes[order], pairs, side="right")
    dropped = [order[start : min(start + n, end)] for start, end, n in zip(first, last, counts, strict=True)]
    kept = np.ones(len(codes), bool)
    kept[np.concatenate(dropped)] = False
    return np.flatnonzero(kept)


def _all_true(hyponyms: Ids, hypernyms: Ids, layout: str) -> PairList:
    return PairList(hyponyms, hypernyms, np.ones(len(hyponyms), bool), layout)


def _pairs(part: PairList, edges: PairSet) -> ConceptPairs:
    """Add the columns that follow from the taxonomy and from the order of true and false pairs."""
    low, high, labels = part.hyponyms, part.hypernyms, part.labels
    replaced = np.zeros(len(labels), np.int8)
    false, true = np.flatnonzero(~labels), np.flatnonzero(labels)
    if len(true) and len(false) % len(true) == 0:  # the k-th false pair belongs to the k-th true one
        own = np.repeat(true, len(false) // len(true))
        first, second = low[false] != low[own], high[false] != high[own]
        if not (first & second).any():
            replaced[false] = np.where(second, 2, 1)
    return ConceptPairs(low, high, labels, edges.has(low, high) & labels, replaced)


def _counts(
    taxonomy: Taxonomy,
    rows: tuple[Ids, Ids],
    true: PairSet,
    found: dict[str, ConceptPairs],
    settings: TaxonomySettings,
    layout: str,
) -> dict[str, Any]:
    above, below = true.counts()
    parents = np.bincount(taxonomy.hyponyms, minlength=len(taxonomy.names))
    relations = {name: taxonomy.relations.count(name) for name in dict.fromkeys(taxonomy.relations)}
    train = found["train"]
    training = PairSet(train.hyponyms, train.hypernyms, len(taxonomy.names))
    entry: dict[str, Any] = {
        "concepts": len(taxonomy.names),
        "edges": len(taxonomy.hyponyms),
        "relations": relations,
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
        part = found[name]
        wrong = true.has(part.hyponyms, part.hypernyms) & ~part.labels
        again = training.has(part.hyponyms, part.hypernyms) & part.labels
        entry[name] = {
            "true": int(part.labels.sum()),
            "false": int((~part.labels).sum()),
            "in_training": _percent(again.sum(), part.labels.sum()),
            "mislabelled": _percent(wrong.sum(), (~part.labels).sum()),
            "ceiling": _percent(len(wrong) - wrong.sum(), len(wrong)),
        }
    if layout == GANEA:  # test has 5 % of the pairs that are no edges; training has 0, 10, 25, 50 or 90 %
        layout += f"-{round(5.0 * (~train.direct).sum() / entry['test']['true'])}"
    entry["protocol"] = _protocol(entry, settings, layout)
    return entry


def _protocol(entry: dict[str, Any], settings: TaxonomySettings, layout: str) -> str:
    """Return the published protocol that the split follows; empty for none."""
    whole = settings.format != "sample" and settings.below is None and entry["concepts"] > 80_000
    if not whole or layout.startswith((LI, GANEA)):
        return layout if whole else ""
    sizes = [entry[name][label] for name in ("dev", "test") for label in ("true", "false")]
    if sizes != [RELEASED] * 4:
        return ""
    released = settings.closure == "paths" and settings.negatives == "as_drawn"
    clean = settings.closure == "distinct" and settings.negatives == "filtered"
    return "released" if released else "clean" if clean and not entry["test"]["mislabelled"] else ""


def _percent(part: Any, whole: Any) -> float:
    return round(100.0 * float(part) / float(whole), 4)
