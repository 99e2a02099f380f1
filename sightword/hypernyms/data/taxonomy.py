"""A taxonomy: concepts, its direct edges from hyponym to hypernym, and the transitive closure of the edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from sightword.errors import CorpusError
from sightword.io.mapping import mapping
from sightword.messages import and_more, guess, short

Ids = NDArray[np.int32]

MOST_PAIRS = 50_000_000
"""The most rows of a closure; WordNet's nouns have 0.8 million paths."""


@dataclass(frozen=True)
class Taxonomy:
    """Concepts and edges; a concept's id is its place in ``names``."""

    names: list[str]
    """The name of each concept, such as ``dog.n.01``."""
    words: list[str]
    """The words for each concept, separated by a comma and a space."""
    glosses: list[str]
    """The definition of each concept; may be empty."""
    hyponyms: Ids
    """The lower concept of each edge."""
    hypernyms: Ids
    """The upper concept of each edge."""
    relations: list[str]
    """The relation of each edge, such as ``hypernym`` or ``instance_hypernym``."""
    doubled: int = 0
    """Edges that were given more than once, and are kept once."""

    @property
    def parents(self) -> list[list[int]]:
        """The direct hypernyms of each concept."""
        found: list[list[int]] = [[] for _ in self.names]
        for low, high in zip(self.hyponyms.tolist(), self.hypernyms.tolist(), strict=True):
            found[low].append(high)
        return found

    def id_of(self) -> dict[str, int]:
        """The id of each name."""
        return {name: place for place, name in enumerate(self.names)}


def build(
    names: Sequence[str],
    edges: Iterable[tuple[str, str, str]],
    where: object,
    *,
    words: Sequence[str] | None = None,
    glosses: Sequence[str] | None = None,
) -> Taxonomy:
    """Return the taxonomy of named edges.

    Args:
        names: of the concepts, without repetition.
        edges: (hyponym, hypernym, relation).
        where: the file, for messages.
        words: for each concept; default: its name.
        glosses: for each concept; default: empty.

    Raises:
        CorpusError: no edge, an edge from a concept to itself, an edge to an unknown concept, an edge with two
            relations, a concept that stands twice, or a cycle.
    """
    numbered = ((name, place, f"{where}, concept {place + 1}") for place, name in enumerate(names))
    ids = mapping(numbered, "the concept", "id", CorpusError, todo="Give each concept a name of its own.")
    records = []
    for number, (low, high, relation) in enumerate(edges, start=1):
        for name in (low, high):
            if name not in ids:
                what = f"the edge {short(low)} -> {short(high)} has an unknown concept {short(name)}"
                raise CorpusError(what, where=where)
        if low == high:
            raise CorpusError(f"{short(low)} is its own hypernym", where=where, todo="Delete the edge.")
        records.append(((low, high), relation, f"{where}, edge {number}"))
    seen = mapping(records, "the edge", "relation", CorpusError, todo="Delete one of the two.")
    if not seen:
        raise CorpusError("has no edges", where=where, expected="a hyponym and a hypernym in each row")
    pairs = np.array([(ids[low], ids[high]) for low, high in seen], np.int32)
    found = Taxonomy(
        list(names), list(words or names), list(glosses or [""] * len(ids)),
        pairs[:, 0].copy(), pairs[:, 1].copy(), list(seen.values()), len(records) - len(seen),
    )  # fmt: skip
    upwards(found.parents, found.names, where)
    return found


def upwards(parents: Sequence[Sequence[int]], names: Sequence[str], where: object) -> list[int]:
    """Return all ids, each after its hypernyms.

    Raises:
        CorpusError: there is a cycle; the message names its concepts.
    """
    waiting = [len(set(above)) for above in parents]
    below: list[list[int]] = [[] for _ in parents]
    for low, above in enumerate(parents):
        for high in set(above):
            below[high].append(low)
    order = [place for place, count in enumerate(waiting) if not count]
    for high in order:
        for low in below[high]:
            waiting[low] -= 1
            if not waiting[low]:
                order.append(low)
    if len(order) < len(parents):
        left = {place for place, count in enumerate(waiting) if count}
        path = [min(left)]
        while path.count(path[-1]) < 2:
            path.append(next(high for high in parents[path[-1]] if high in left))
        circle = path[path.index(path[-1]) :]
        raise CorpusError(
            f"has a cycle: {and_more((names[place] for place in circle), 12, between=' -> ')}",
            where=where,
            expected="hypernyms that never lead back",
        )
    return order


def closure(taxonomy: Taxonomy, *, paths: bool = False) -> tuple[Ids, Ids]:
    """Return the hyponym and the hypernym of each pair of the transitive closure, by hyponym.

    Args:
        taxonomy: without cycles.
        paths: one row for each path from hyponym to hypernym, as the released code of Vendrov et al. writes them;
            otherwise each pair once.

    Raises:
        CorpusError: there are more than :data:`MOST_PAIRS` rows.
    """
    parents = taxonomy.parents
    above: list[tuple[int, ...]] = [()] * len(parents)
    total = 0
    for place in upwards(parents, taxonomy.names, "the taxonomy"):
        own = parents[place]
        # Counted before they are built: the paths of a chain of diamonds double with each of them.
        if total + (sum(1 + len(above[high]) for high in own) if paths else 0) > MOST_PAIRS:
            what = f"the closure has more than {MOST_PAIRS} {'paths' if paths else 'pairs'}"
            todo = "Set taxonomy.closure to distinct." if paths else "Take a part with taxonomy.below."
            raise CorpusError(what, where=f"the taxonomy, {short(taxonomy.names[place])}", todo=todo)
        if len(own) == 1:
            above[place] = (own[0], *above[own[0]])
        elif own:
            every = chain.from_iterable((high, *above[high]) for high in own)
            above[place] = tuple(every) if paths else tuple(dict.fromkeys(every))
        total += len(above[place])
    sizes = np.fromiter(map(len, above), np.int64, len(above))
    high = np.fromiter(chain.from_iterable(above), np.int32, int(sizes.sum()))
    return np.repeat(np.arange(len(above), dtype=np.int32), sizes), high


def depths(taxonomy: Taxonomy) -> Ids:
    """Return the least number of edges from each concept up to a root."""
    parents = taxonomy.parents
    found = np.zeros(len(parents), np.int32)
    for place in upwards(parents, taxonomy.names, "the taxonomy"):
        if parents[place]:
            found[place] = 1 + min(found[high] for high in parents[place])
    return found


def only_below(taxonomy: Taxonomy, name: str, where: object) -> Taxonomy:
    """Return the part of a taxonomy at and below one concept.

    Raises:
        CorpusError: there is no such concept, or nothing is below it.
    """
    ids = taxonomy.id_of()
    if name not in ids:
        raise CorpusError(f"has no concept {name}{guess(name, ids)}", where=where, todo="Change taxonomy.below.")
    low, high = closure(taxonomy)
    kept = np.unique(np.append(low[high == ids[name]], ids[name]))
    inside = np.isin(taxonomy.hyponyms, kept) & np.isin(taxonomy.hypernyms, kept)
    names = taxonomy.names
    edges = [
        (names[taxonomy.hyponyms[row]], names[taxonomy.hypernyms[row]], taxonomy.relations[row])
        for row in np.flatnonzero(inside)
    ]
    return build(
        [names[place] for place in kept], edges, where,
        words=[taxonomy.words[place] for place in kept], glosses=[taxonomy.glosses[place] for place in kept],
    )  # fmt: skip
