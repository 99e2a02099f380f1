"""The retrieval tables: this run's recall with intervals, chance, and published rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightword.report import published
from sightword.report.number_formats import NONE, counted, is_number, percent, plain
from sightword.statistics import wald_half_width

DEPTHS = ("r1", "r5", "r10")
DIRECTIONS = {"caption_to_image": "From a caption to its picture", "image_to_caption": "From a picture to its captions"}
PROTOCOLS = {"full": "all pictures of the split", "five_fold_1k": "five folds of 1,000 pictures, averaged"}


@dataclass(frozen=True)
class Row:
    """One system: its name, the source of its numbers, and (text, interval) of each column."""

    kind: str
    """``ours``, ``chance`` or ``published``."""
    name: str
    detail: str
    cells: list[tuple[str, str]]


@dataclass(frozen=True)
class Block:
    """A group of rows; ``published`` is the data set of published rows, or empty for this run's rows."""

    published: str
    rows: list[Row]


@dataclass(frozen=True)
class Table:
    """One direction of one protocol on one split."""

    split: str
    protocol: str
    heading: str
    blocks: list[Block]


def tables(
    retrieval: Mapping[str, Any], captions_each: Mapping[str, Sequence[int]], *, with_published: bool
) -> list[Table]:
    """Return every table of ``metrics/retrieval.json``.

    Args:
        retrieval: the metrics: split -> protocol -> direction -> scores.
        captions_each: for each split, the number of captions of each picture, which determines the chance level.
        with_published: whether to add published rows below this run's.
    """
    found = []
    for split, protocols in retrieval.items():
        if not isinstance(protocols, Mapping):
            continue
        for protocol, directions in protocols.items():
            if protocol == "skipped" or not isinstance(directions, Mapping):
                continue
            for direction, heading in DIRECTIONS.items():
                scores = directions.get(direction)
                if not isinstance(scores, Mapping):
                    continue
                rows = [_ours(scores)]
                if protocol == "full":
                    rows += _chance(scores, direction, captions_each.get(split, ()))
                blocks = [Block("", rows), *(_published(direction) if with_published else [])]
                found.append(Table(str(split), PROTOCOLS.get(protocol) or str(protocol), heading, blocks))
    return found


def skipped(retrieval: Mapping[str, Any]) -> list[str]:
    """Return each skipped protocol with the reason."""
    found = []
    for protocols in retrieval.values():
        reasons = protocols.get("skipped") if isinstance(protocols, Mapping) else None
        if isinstance(reasons, Mapping):
            found += [f"{PROTOCOLS.get(name) or name}: {reason}" for name, reason in reasons.items()]
    return found


def chance(direction: str, captions_each: Sequence[int], depth: int) -> float:
    """Return the expected recall in percent of a random order of the candidates.

    A caption finds its one picture with k / pictures; a picture finds at least one of its m captions among all M with 1
    - C(M - m, k) / C(M, k).

    Args:
        direction: ``caption_to_image`` or ``image_to_caption``.
        captions_each: the number of captions of each picture.
        depth: k.
    """
    if direction == "caption_to_image":
        return 100.0 * min(1.0, depth / len(captions_each))
    total = sum(captions_each)
    missed = [
        math.comb(total - own, depth) / math.comb(total, depth) if total >= depth else 0.0 for own in captions_each
    ]
    return 100.0 * (1.0 - sum(missed) / len(missed))


def _ours(scores: Mapping[str, Any]) -> Row:
    cells = []
    for depth in DEPTHS:
        half = scores.get(f"{depth}_ci95")
        cells.append((percent(scores.get(depth)), f"± {percent(half)}" if is_number(half) else ""))
    cells.append(_ranks(scores.get("median_rank"), scores.get("mean_rank")))
    queries = scores.get("queries")
    queries_text = "" if not is_number(queries) else "1 query" if queries == 1 else f"{queries:,} queries"
    return Row("ours", "This run", queries_text, cells)


def _ranks(median: object, mean: object) -> tuple[str, str]:
    """Return the median rank, and the mean rank for the line below."""
    return plain(median) if is_number(median) else NONE, f"mean {percent(mean)}" if is_number(mean) else ""


def _chance(scores: Mapping[str, Any], direction: str, captions_each: Sequence[int]) -> list[Row]:
    queries = sum(captions_each) if direction == "caption_to_image" else len(captions_each)
    if not queries or scores.get("queries") != queries:
        return []
    candidates = len(captions_each) if direction == "caption_to_image" else sum(captions_each)
    cells = [(percent(chance(direction, captions_each, int(depth[1:]))), "") for depth in DEPTHS]
    return [Row("chance", "Chance", counted(candidates, "candidate"), [*cells, (NONE, "")])]


def _published(direction: str) -> list[Block]:
    blocks: dict[str, list[Row]] = {}
    for row in published.ROWS:
        scores = row.caption_to_image if direction == "caption_to_image" else row.image_to_caption
        if scores is None:
            continue
        queries = published.QUERIES[row.data][direction]
        cells = [
            (percent(value), "" if value is None else f"± {percent(wald_half_width(value, queries))}")
            for value in (scores.r1, scores.r5, scores.r10)
        ]
        cells.append(_ranks(scores.median_rank, scores.mean_rank))
        source = "" if row.source == row.system else row.source
        blocks.setdefault(row.data, []).append(Row("published", row.system, source, cells))
    return [Block(data, rows) for data, rows in blocks.items()]
