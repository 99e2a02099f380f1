"""The three splits of sentence pairs: sources joined, undecided pairs, dev held out by premise, and the counts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightword.entailment.data.pairs import LABELS, SentencePairs, in_training, premise_key
from sightword.entailment.data.settings import SentencePairsSettings, Source
from sightword.entailment.data.sources import read_source
from sightword.errors import SemanticsError
from sightword.settings import SPLITS


def split_pairs(settings: SentencePairsSettings) -> tuple[dict[str, SentencePairs], dict[str, Any]]:
    """Return the pairs of each split, and the counts that the stage reports.

    Raises:
        SemanticsError: a source cannot be read, ``hold_out`` takes all pairs, or a split has no pair of one class.
    """
    undecided: Counter[str] = Counter()
    splits = {name: _join(getattr(settings, name), settings, undecided, name) for name in SPLITS}
    if settings.hold_out:
        splits["train"], splits["dev"] = hold_out(splits["train"], settings.hold_out)
    if settings.size is not None:
        splits["train"] = _some(splits["train"], settings.size)
    for name, pairs in splits.items():
        if pairs.entailed.all() or not pairs.entailed.any():
            which = "not entailed" if pairs.entailed.any() else "entailed"
            todo = f"Look at pairs.{'train' if name == 'dev' and settings.hold_out else name}."
            raise SemanticsError(f"the split {name} has no pair that is {which}", expected="both classes", todo=todo)
    if settings.undecided != "drop":  # hold_out and size have moved or left out some of those that were read
        undecided = Counter({name: pairs.labels.count("undecided") for name, pairs in splits.items()})
    return splits, {name: _counts(splits, name, undecided[name]) for name in SPLITS}


def hold_out(pairs: SentencePairs, count: int) -> tuple[SentencePairs, SentencePairs]:
    """Split pairs into training and dev, so that no premise is on both sides.

    Premises go to dev in the order of their hashes until dev has ``count`` pairs or more.

    Raises:
        SemanticsError: nothing would be left for training.
    """
    keys = [premise_key(premise) for premise in pairs.premises]
    sizes = Counter(keys)
    held: set[str] = set()
    taken = 0
    for key in sorted(sizes, key=_hash):
        if taken >= count:
            break
        held.add(key)
        taken += sizes[key]
    of_dev = np.array([key in held for key in keys], bool)
    if of_dev.all():
        what = f"hold_out = {count} takes all {len(pairs)} training pairs"
        raise SemanticsError(what, todo="Lower pairs.hold_out.")
    return pairs.where(~of_dev), pairs.where(of_dev)


def _join(sources: list[Source], settings: SentencePairsSettings, undecided: Counter[str], split: str) -> SentencePairs:
    rows = []
    for source in sources:
        for premise, hypothesis, label in read_source(source):
            if label == "undecided":
                undecided[split] += 1
                if settings.undecided == "drop":
                    continue
            rows.append((premise, hypothesis, label, source.name))
    if sources and not rows:
        todo = f"Look at pairs.{split}, or set pairs.undecided to not_entailed."
        raise SemanticsError(f"all pairs of the split {split} are undecided, and are left out", todo=todo)
    return SentencePairs.of(rows)


def _some(pairs: SentencePairs, size: int) -> SentencePairs:
    """Return the first pairs by their hash, in the order they had; a smaller size gives a part of a larger one."""
    if size > len(pairs):
        what = f"size = {size} is more than the {len(pairs)} training pairs"
        raise SemanticsError(what, todo="Lower pairs.size, or set it to null.")
    hashes = [_hash(f"{one}\t{other}") for one, other in zip(pairs.premises, pairs.hypotheses, strict=True)]
    chosen = sorted(range(len(pairs)), key=lambda place: (hashes[place], place))[:size]
    return pairs.where(np.array(sorted(chosen)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _counts(splits: Mapping[str, SentencePairs], name: str, undecided: int) -> dict[str, Any]:
    pairs = splits[name]
    keys = [premise_key(premise) for premise in pairs.premises]
    labels, sources = Counter(pairs.labels), Counter(pairs.sources)
    found: dict[str, Any] = {
        "pairs": len(pairs),
        "entailed": round(100.0 * float(pairs.entailed.mean()), 4),
        "labels": {label: labels[label] for label in LABELS if labels[label]},
        "undecided": undecided,
        "contradictory": _contradictory(pairs),
        "premises": len(set(keys)),
        "sources": dict(sources),
    }
    if name != "train":
        seen = in_training(pairs, splits["train"])
        found["premises_in_training"] = len({key for key, one in zip(keys, seen, strict=True) if one})
        found["pairs_with_premise_in_training"] = _percent(seen)
    return found


def _contradictory(pairs: SentencePairs) -> int:
    """Return how many pairs stand in the split with another label too: people's judgements differ, and all are kept."""
    labels: dict[tuple[str, str], set[str]] = {}
    keys = list(zip(pairs.premises, pairs.hypotheses, strict=True))
    for key, label in zip(keys, pairs.labels, strict=True):
        labels.setdefault(key, set()).add(label)
    return sum(len(labels[key]) > 1 for key in keys)


def _percent(mask: NDArray[np.bool_]) -> float:
    return round(100.0 * float(mask.mean()), 4)
