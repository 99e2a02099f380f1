"""Taxonomies: concepts, edges and their transitive closure; readers of WordNet, of tables, and of the sample."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sightword.errors import CorpusError
from sightword.io import yaml_reader
from sightword.io.files import Pathish, mapping, read_text
from sightword.io.opening import files_in, read_bytes
from sightword.io.tables import Table, check_bare
from sightword.messages import and_more, plural, quote, short

log = logging.getLogger(__name__)

Ids = NDArray[np.int32]

MOST_PAIRS = 50_000_000
"""The most rows of a closure; WordNet's nouns have 0.8 million paths."""
RELATIONS = {"@": "hypernym", "@i": "instance_hypernym"}
"""WordNet's signs of relations (wninput(5))."""
PARTS = ("size_words", "colours", "shapes", "backgrounds")
ROOT = "scene"
"""The sample's description without a word."""
_TODO = "Fetch it again with `sightword fetch wordnet`."
_EDGES = Table(("hyponym", "hypernym", "relation"), CorpusError, optional=("relation",), quotes=True)


@dataclass(frozen=True)
class Taxonomy:
    """Concepts and edges; a concept's id is its place in ``names``."""

    names: list[str]  # such as `dog.n.01`
    words: list[str]  # the words for each concept, separated by a comma and a space
    glosses: list[str]  # the definition of each concept; may be empty
    hyponyms: Ids  # the lower concept of each edge
    hypernyms: Ids  # the upper concept of each edge
    relations: list[str]  # the relation of each edge
    doubled: int = 0  # edges that were given more than once, and are kept once

    @property
    def parents(self) -> list[list[int]]:
        """The direct hypernyms of each concept."""
        parents: list[list[int]] = [[] for _ in self.names]
        for low, high in zip(self.hyponyms.tolist(), self.hypernyms.tolist(), strict=True):
            parents[low].append(high)
        return parents


def build(
    names: Sequence[str], edges: Iterable[tuple[str, str, str]], where: object, *,
    words: Sequence[str] | None = None, glosses: Sequence[str] | None = None,
) -> Taxonomy:  # fmt: skip
    """Return the taxonomy of edges (hyponym, hypernym, relation); ``words`` are the names by default.

    Raises:
        CorpusError: no edge, an edge from a concept to itself, an edge to an unknown concept, an edge with two
            relations, a repeated concept, or a cycle.
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
    taxonomy = Taxonomy(
        list(names), list(words or names), list(glosses or [""] * len(ids)),
        pairs[:, 0].copy(), pairs[:, 1].copy(), list(seen.values()), len(records) - len(seen),
    )  # fmt: skip
    upwards(taxonomy.parents, taxonomy.names, where)
    return taxonomy


def upwards(parents: Sequence[Sequence[int]], names: Sequence[str], where: object) -> list[int]:
    """Return all ids, each after its hypernyms; CorpusError names the concepts of a cycle."""
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
        circle = and_more((names[place] for place in path[path.index(path[-1]) :]), 12, between=" -> ")
        raise CorpusError(f"has a cycle: {circle}", where=where, expected="hypernyms that never lead back")
    return order


def closure(taxonomy: Taxonomy, *, paths: bool = False) -> tuple[Ids, Ids]:
    """Return the hyponym and the hypernym of each pair of the transitive closure, by hyponym.

    With ``paths``, a pair has a row for each path, as the released code of Vendrov et al. writes them.

    Raises:
        CorpusError: there are more than :data:`MOST_PAIRS` rows.
    """
    parents = taxonomy.parents
    above: list[tuple[int, ...]] = [()] * len(parents)
    total = 0
    for place in upwards(parents, taxonomy.names, "the taxonomy"):
        direct = parents[place]
        # Counted before they are built: the paths of a chain of diamonds double with each of them.
        if total + (sum(1 + len(above[high]) for high in direct) if paths else 0) > MOST_PAIRS:
            what = f"the closure has more than {MOST_PAIRS} {'paths' if paths else 'pairs'}"
            todo = "Set taxonomy.closure to distinct." if paths else "Take a part of the taxonomy."
            raise CorpusError(what, where=f"the taxonomy, {short(taxonomy.names[place])}", todo=todo)
        if len(direct) == 1:
            above[place] = (direct[0], *above[direct[0]])
        elif direct:
            every = chain.from_iterable((high, *above[high]) for high in direct)
            above[place] = tuple(every) if paths else tuple(dict.fromkeys(every))
        total += len(above[place])
    sizes = np.fromiter(map(len, above), np.int64, len(above))
    high = np.fromiter(chain.from_iterable(above), np.int32, int(sizes.sum()))
    return np.repeat(np.arange(len(above), dtype=np.int32), sizes), high


def read_wordnet(folder: Pathish, relations: Collection[str]) -> Taxonomy:
    """Read the nouns of WordNet, with the relations that are edges: ``data.noun`` and ``index.noun`` (wndb(5)).

    A name is the first lemma in lower case, ``.n.``, and the two-digit place of the synset among the lemma's synsets,
    as in NLTK. Without ``index.noun`` the names are the offsets, and the log reports it.

    Raises:
        CorpusError: a file is missing, damaged or cut off (with line and offset), or an edge is wrong.
    """
    data = Path(folder) / "data.noun"
    if wrong := [name for name in relations if name not in RELATIONS.values()]:
        what, known = f"WordNet's nouns have no relation {quote(wrong[0])}", ", ".join(RELATIONS.values())
        raise CorpusError(what, where="taxonomy.relations", expected=f"some of {known}")
    senses = _senses(Path(folder) / "index.noun")
    wanted = {sign: name for sign, name in RELATIONS.items() if name in relations}
    names: dict[str, str] = {}
    words, glosses = [], []
    edges: list[tuple[str, str, str]] = []
    at = 0
    for number, line in enumerate(read_bytes(data, CorpusError, todo=_TODO).split(b"\n"), start=1):
        start, at = at, at + len(line) + 1
        if not line or line.startswith(b"  "):
            continue
        try:
            head, bar, gloss = line.decode().partition("|")
            fields = head.split()
            offset, count = fields[0], int(fields[3], 16)
            lemmas = fields[4 : 4 + 2 * count : 2]
            pointers = fields[5 + 2 * count :]
            if not bar or not lemmas or int(offset) != start or len(pointers) != 4 * int(fields[4 + 2 * count]):
                raise ValueError
        except (ValueError, IndexError):
            what = f"is damaged or cut off: line {number}, offset {start}, is not a whole synset"
            raise CorpusError(what, where=data, todo=_TODO) from None
        names[offset] = offset
        if senses is not None:
            lemma = lemmas[0].lower()
            if offset not in senses.get(lemma, ()):
                what = f"line {number}: index.noun does not list the synset {short(offset)} for {short(lemma)}"
                raise CorpusError(what, where=data, todo=_TODO)
            names[offset] = f"{lemma}.n.{senses[lemma].index(offset) + 1:02}"
        words.append(", ".join(lemma.replace("_", " ") for lemma in lemmas))
        glosses.append(gloss.strip())
        for sign, target, kind in zip(pointers[::4], pointers[1::4], pointers[2::4], strict=True):
            if kind == "n" and sign in wanted:
                edges.append((offset, target, wanted[sign]))
    for low, high, _ in edges:
        if high not in names:
            what = f"is cut off: the synset {short(names[low])} has the hypernym {short(high)}, which is missing"
            raise CorpusError(what, where=data, todo=_TODO)
    named = ((names[low], names[high], relation) for low, high, relation in edges)
    return build(list(names.values()), named, data, words=words, glosses=glosses)


def _senses(path: Path) -> dict[str, list[str]] | None:
    """Return the offsets of each lemma, in the order of its senses; None without the file."""
    if not path.is_file():
        log.warning("taxonomy: %s is missing: concepts are named by their offsets", path)
        return None
    senses = []
    for number, line in enumerate(read_bytes(path, CorpusError, todo=_TODO).split(b"\n"), start=1):
        if line and not line.startswith(b"  "):
            try:
                lemma, _, count, *rest = line.decode().split()
                if not 1 <= int(count) <= len(rest):
                    raise ValueError
            except ValueError:
                what = f"is damaged or cut off: line {number} is not a whole lemma"
                raise CorpusError(what, where=path, todo=_TODO) from None
            senses.append((lemma, rest[-int(count) :], f"{path}, line {number}"))
    return mapping(senses, "the lemma", "list of synsets", CorpusError, todo=_TODO)


def read_edges(path: Pathish, relations: Collection[str]) -> Taxonomy:
    """Read a table of edges with the columns ``hyponym`` and ``hypernym``, and maybe ``relation``.

    Tabs or commas separate the columns, cells may stand in double quotes, and ``.gz`` is decompressed. Concepts are
    sorted by name. Rows of other relations than ``relations`` are left out.

    Raises:
        CorpusError: the table cannot be read, a column or a cell is missing, or an edge is wrong.
    """
    where = Path(path)
    if where.is_dir():
        tables = files_in(where, "*.csv", "*.tsv", "*.csv.gz", "*.tsv.gz")
        if len(tables) != 1:
            raise CorpusError(f"has {len(tables)} tables", where=where, expected="one .csv or .tsv file of edges")
        where = tables[0]
    triples = [(low, high, relation or "hypernym") for _, (low, high, relation) in _EDGES.rows(where)]
    check_bare((name for edge in triples for name in edge[:2]), where, CorpusError)
    edges = [edge for edge in triples if edge[2] in relations]
    if left_out := sorted({edge[2] for edge in triples}.difference(relations)):
        if not edges:
            todo = "Name its relations in taxonomy.relations."
            raise CorpusError(f"has only edges of {and_more(left_out)}", where=where, todo=todo)
        log.info("%s: %s left out, of %s", where, plural(len(triples) - len(edges), "edge"), and_more(left_out))
    return build(sorted({name for edge in edges for name in edge[:2]}), edges, where)


def read_scenes(folder: Pathish) -> Taxonomy:
    """Return the sample taxonomy: all descriptions by the words in ``scenes.yaml``, joined by ``_``.

    A description is above another one that has all of its words. With S sizes, C colours, F shapes and B backgrounds
    there are (1 + S)(1 + C)(1 + F)(1 + B) descriptions, and (1 + 2S)(1 + 2C)(1 + 2F)(1 + 2B) pairs of a description
    with itself or with one above.

    Raises:
        CorpusError: the file lacks a part, or two parts share a word.
    """
    path = Path(folder) / "scenes.yaml"
    values = yaml_reader.parse(read_text(path), path)
    missing = [part for part in PARTS if not isinstance(values, dict) or not isinstance(values.get(part), dict)]
    if missing:
        raise CorpusError(f"has no {missing[0]}", where=path)
    choices = [[str(word) for word in values[part]] for part in PARTS]
    every = [*chain.from_iterable(choices), ROOT]
    if len(set(every)) < len(every) or any("_" in word for word in every):
        raise CorpusError("has a word in two parts, or one with an underscore", where=path)
    names, edges = [], []
    for chosen in itertools.product(*[[None, *words] for words in choices]):
        said = [word for word in chosen if word is not None]
        names.append("_".join(said) or ROOT)
        edges += [
            (names[-1], "_".join([*said[:out], *said[out + 1 :]]) or ROOT, "hypernym") for out in range(len(said))
        ]
    shown = [name.replace("_", " ") for name in names]
    return build(names, edges, folder, words=shown, glosses=[f"a scene with: {text}" for text in shown])
