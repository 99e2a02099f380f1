"""The splits of sentence pairs and their sources: SNLI, tables, and the sample's own."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sightword.corpus.sample.scene import load_world
from sightword.corpus.sample.sentences import sick_pair
from sightword.entailment.data.pairs import LABELS, UNDECIDED, SentencePairs, in_training, premise_key
from sightword.entailment.settings import SentencePairsSettings, Source
from sightword.errors import SemanticsError
from sightword.evaluation.semantics.classification_data import read_parallel
from sightword.io.files import json_lines, member
from sightword.io.tables import Table, check_bare
from sightword.messages import quote
from sightword.settings import SPLITS

log = logging.getLogger(__name__)

Row = tuple[str, str, str, str]
"""The place of a pair for messages, its premise, its hypothesis, and its label as the file spells it."""

COLUMNS = (("premise", "sentence1"), ("hypothesis", "sentence2"), ("label", "gold_label"))
"""The accepted names of the columns of a table."""
_TABLE = Table(COLUMNS, SemanticsError)


def split_pairs(settings: SentencePairsSettings) -> tuple[dict[str, SentencePairs], dict[str, Any]]:
    """Return the pairs of each split, and the counts that the stage reports.

    Raises:
        SemanticsError: a source cannot be read, or a split has no pair of one class.
    """
    undecided: Counter[str] = Counter()
    splits = {}
    for name in SPLITS:
        rows = [(*row, source.name) for source in getattr(settings, name) for row in read_source(source)]
        kept = [row for row in rows if row[2] != UNDECIDED]
        undecided[name] = len(rows) - len(kept)
        if not kept:
            what = f"all pairs of the split {name} are undecided, and are left out"
            raise SemanticsError(what, todo=f"Look at pairs.{name}.")
        splits[name] = SentencePairs.of(kept)
    if settings.size is not None:
        splits["train"] = _some(splits["train"], settings.size)
    for name, pairs in splits.items():
        if pairs.entailed.all() or not pairs.entailed.any():
            which = "not entailed" if pairs.entailed.any() else "entailed"
            todo = f"Look at pairs.{name}."
            raise SemanticsError(f"the split {name} has no pair that is {which}", expected="both classes", todo=todo)
    dev, test = ([*zip(splits[name].premises, splits[name].hypotheses, strict=True)] for name in ("dev", "test"))
    if again := sum(map({*dev}.__contains__, test)):
        log.warning("pairs: %d of %d test pairs are dev pairs too, which choose the threshold", again, len(test))
    return splits, {name: _counts(splits, name, undecided[name]) for name in SPLITS}


def _some(pairs: SentencePairs, size: int) -> SentencePairs:
    """Return the first pairs by their hash, in the order they had; a smaller size gives a part of a larger one."""
    if size > len(pairs):
        what = f"size = {size} is more than the {len(pairs)} training pairs"
        raise SemanticsError(what, todo="Lower pairs.size, or set it to null.")
    texts = [f"{one}\t{other}" for one, other in zip(pairs.premises, pairs.hypotheses, strict=True)]
    hashes = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    chosen = sorted(range(len(pairs)), key=lambda place: (hashes[place], place))[:size]
    return pairs.where(np.array(sorted(chosen)))


def _counts(splits: Mapping[str, SentencePairs], name: str, undecided: int) -> dict[str, Any]:
    pairs = splits[name]
    keys = [premise_key(premise) for premise in pairs.premises]
    labels = Counter(pairs.labels)
    sides = list(zip(pairs.premises, pairs.hypotheses, strict=True))
    twice = Counter(side for side, _ in set(zip(sides, pairs.labels, strict=True)))
    counts: dict[str, Any] = {
        "pairs": len(pairs),
        "entailed": round(100.0 * float(pairs.entailed.mean()), 4),
        "labels": {label: labels[label] for label in LABELS if labels[label]},
        "undecided": undecided,
        "contradictory": sum(twice[side] > 1 for side in sides),  # people's judgements differ: all pairs are kept
        "premises": len(set(keys)),
        "sources": dict(Counter(pairs.sources)),
    }
    if name != "train":
        seen = in_training(pairs, splits["train"])
        counts["premises_in_training"] = len({key for key, one in zip(keys, seen, strict=True) if one})
        counts["pairs_with_premise_in_training"] = round(100.0 * float(seen.mean()), 4)
    return counts


def read_source(source: Source) -> list[tuple[str, str, str]]:
    """Return the pairs of a source in its order: premise, hypothesis, and a label, maybe :data:`UNDECIDED`.

    SemanticsError (file and line) if a file is absent or damaged, files of one part differ in length, a label is
    unknown, or a sentence is empty; CorpusError if the sample's description is wrong.
    """
    triples = []
    for where, premise, hypothesis, label in _rows(source):
        known = label.strip().lower()
        known = UNDECIDED if known == "-" else known
        if known not in (*LABELS, UNDECIDED):
            raise SemanticsError(f"the label is {quote(label)}", where=where, expected=f"{', '.join(LABELS)} or -")
        sentences = _filled(premise, "premise", where), _filled(hypothesis, "hypothesis", where)
        if source.premises == "all" or (source.premises == "tenth") == in_tenth(premise):
            triples.append((*sentences, known))
    if not triples:
        raise SemanticsError(f"has no pairs ({source.name})", where=source.path)
    check_bare((text for row in triples for text in row[:2]), source.path, SemanticsError)
    return triples


def check_source(source: Source) -> None:
    """Read the first pair of a source, but for its label; SemanticsError if there is none."""
    if next(_rows(source), None) is None:
        raise SemanticsError(f"has no pairs ({source.name})", where=source.path)


def _filled(text: str, which: str, where: str) -> str:
    """Return a sentence without white space around it; SemanticsError if nothing is left."""
    if not (stripped := text.strip()):
        raise SemanticsError(f"the {which} is empty", where=where, todo="Delete the pair, or write the sentence.")
    return stripped


def in_tenth(premise: str) -> bool:
    """Return whether the sha256 of a premise, in lower case without white space around it, is divisible by ten."""
    return int(hashlib.sha256(premise.strip().lower().encode()).hexdigest(), 16) % 10 == 0


def _rows(source: Source) -> Iterator[Row]:
    place = Path(source.path)
    if source.format == "snli":
        return _snli(place, source)
    return _sample(place, source) if source.format == "sample" else _table(place)


def _snli(folder: Path, source: Source) -> Iterator[Row]:
    """Read SNLI's own jsonl, or SentEval's three files."""
    lines = folder / f"snli_1.0_{source.part}.jsonl"
    if lines.is_file():
        yield from _jsonl(lines)
        return
    files = [folder / f"{kind}.{source.part}" for kind in ("labels", "s1", "s2")]
    if absent := [file.name for file in files if not file.is_file()]:
        what = f"{source.part} of {folder.name} is absent ({', '.join(absent)})"
        raise SemanticsError(what, where=source.path, todo="Run `sightword fetch snli`.")
    for number, (label, *pair) in read_parallel(files, "one sentence for each label"):
        premise, hypothesis = (
            _filled(text, which, f"{file}, line {number}")
            for text, which, file in zip(pair, ("premise", "hypothesis"), files[1:], strict=True)
        )
        yield f"{files[0]}, line {number}", premise, hypothesis, label


def _jsonl(file: Path) -> Iterator[Row]:
    for where, record in json_lines(file, SemanticsError):
        texts = []
        for names in COLUMNS:
            columns = [name for name in names if name in record]
            if len(columns) > 1:
                what = f"has the {names[0]} under two keys: {' and '.join(columns)}"
                raise SemanticsError(what, where=where, expected="one of them")
            if not columns:
                raise SemanticsError(f"has no {' or '.join(names)}", where=where)
            texts.append(member(record, columns[0], str, where, SemanticsError))
        yield where, texts[0], texts[1], texts[2]


def _sample(folder: Path, source: Source) -> Iterator[Row]:
    """Draw pairs of the sample's grammar by a random stream of their own."""
    world = load_world(folder)
    for number in range(source.count or 0):
        pair = sick_pair(world, f"entailment {source.part}", number)
        yield f"{folder}, pair {number}", pair.first, pair.second, pair.judgment


def _table(file: Path) -> Iterator[Row]:
    if not file.is_file():
        todo = "Put the table there (data/raw/entailment/README.md has its columns), or correct the path."
        raise SemanticsError("does not exist", where=file, todo=todo)
    ending = Path(file.name.removesuffix(".gz")).suffix
    if ending not in (".csv", ".tsv", ".jsonl"):
        raise SemanticsError(f"ends in {ending or 'nothing'}", where=file, expected=".csv, .tsv or .jsonl")
    if ending == ".jsonl":
        yield from _jsonl(file)
    else:
        for where, (premise, hypothesis, label) in _TABLE.rows(file):
            yield where, premise, hypothesis, label
