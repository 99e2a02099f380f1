"""Pairs of words from a taxonomy, for encoders that read words by their letters: the hyponyms of dev and test stand in
no training pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from sightword.errors import CorpusError
from sightword.hypernyms.data.pairs import ROUNDS, PairSet
from sightword.hypernyms.data.taxonomy import Ids, Taxonomy, closure
from sightword.io.files import Pathish, write_tsv
from sightword.settings import SPLITS

WordPair = tuple[str, str, str]
"""The hyponym, the hypernym, and ``entailment`` or ``neutral``, as tables of sentence pairs have them."""


def word_pairs(taxonomy: Taxonomy, sizes: Mapping[str, int], *, seed: int) -> dict[str, list[WordPair]]:
    """Return true pairs of the closure for each split, each followed by a false one.

    A concept is the first of its words. A tenth of the words, by their sha256, is kept for dev and another tenth for
    test: a pair belongs to the split of its hyponym, and training has no pair with a kept word on either side. The
    false pair has the hyponym of another true pair of the split, so that neither word alone tells false pairs from
    true ones.

    Args:
        taxonomy: without cycles.
        sizes: the number of true pairs of ``train``, ``dev`` and ``test``, at most.
        seed: of all draws.

    Raises:
        CorpusError: a split has no pairs.
    """
    words = [each.split(", ")[0] for each in taxonomy.words]
    distinct = sorted(set(words))
    place = {word: number for number, word in enumerate(distinct)}
    word_of = np.array([place[word] for word in words], np.int32)
    low, high = (word_of[side] for side in closure(taxonomy))
    true = PairSet(low[low != high], high[low != high], len(distinct))
    hyponyms, hypernyms = (side.astype(np.int32) for side in np.divmod(true.codes, len(distinct)))
    split_of = np.array([_split(word) for word in distinct], np.int8)
    random = np.random.default_rng(seed)
    found = {}
    for number, name in enumerate(SPLITS):
        own = split_of[hyponyms] == number
        if name == "train":
            own &= split_of[hypernyms] == number
        rows = random.permutation(np.flatnonzero(own))[: sizes[name]]
        found[name] = _rows(distinct, hyponyms[rows], hypernyms[rows], true, random)
        if not found[name]:
            todo = "Take a larger taxonomy."
            raise CorpusError(
                f"the taxonomy has no pairs of words for {name}", expected="true and false pairs", todo=todo
            )
    return found


def _split(word: str) -> int:
    """Return the place in :data:`SPLITS` of the split that a word belongs to."""
    return {0: 1, 1: 2}.get(int(hashlib.sha256(word.encode()).hexdigest(), 16) % 10, 0)


def _rows(words: Sequence[str], low: Ids, high: Ids, true: PairSet, random: np.random.Generator) -> list[WordPair]:
    """Return the pairs, each with its false one; pairs without one after :data:`ROUNDS` draws are left out."""
    false = low.copy()
    left = np.arange(len(low))
    for _ in range(ROUNDS):
        if not len(left):
            break
        false[left] = random.choice(low, len(left))
        left = left[true.has(false[left], high[left]) | (false[left] == high[left])]
    kept = np.setdiff1d(np.arange(len(low)), left)
    return [
        (words[side[row]], words[high[row]], label)
        for row in kept
        for side, label in ((low, "entailment"), (false, "neutral"))
    ]


def write_words(folder: Pathish, pairs: Mapping[str, Sequence[WordPair]], *, known: Collection[str]) -> None:
    """Write the tables that the pipeline of entailment reads: ``train.tsv``, and for dev and test ``NAME-known.tsv``,
    the pairs whose hyponym has known words only, and ``NAME-other.tsv``.

    Args:
        folder: exists.
        pairs: from :func:`word_pairs`.
        known: words in lower case, such as those of captions.
    """
    words = set(known)
    for split, rows in pairs.items():
        kinds = {kind: split if split == "train" else f"{split}-{kind}" for kind in ("known", "other")}
        files: dict[str, list[WordPair]] = {name: [] for name in kinds.values()}
        for row in rows:
            files[kinds["known" if words.issuperset(row[0].lower().split()) else "other"]].append(row)
        for name, own in files.items():
            write_tsv(Path(folder) / f"{name}.tsv", ("premise", "hypothesis", "label"), own)
