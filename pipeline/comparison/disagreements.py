"""Where two runs differ: queries that only one of them answers, and sentence pairs that one is far better on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.comparison.contrast import Answers
from pipeline.comparison.systems import unseen_pairs
from sightword.report.gallery import Captions, Tile, by_hash
from sightword.report.thumbnails import thumbnails
from sightword.semantics.breakdown import TRAINED
from sightword.semantics.pair_table import PairTable
from sightword.statistics import mean_ranks

TILES = 5
"""Answers that are shown of each run."""
THUMBNAIL = 112
"""Pixels of a picture's longest side."""


@dataclass(frozen=True)
class Query:
    """A caption with what each run found.

    Attributes:
        text: the caption.
        a_rank: the position of its picture with A, 0 where it is not among those kept.
        b_rank: the same of B.
        a: A's first answers.
        b: B's.
        truth: its picture, where neither's first answers show it.
    """

    text: str
    a_rank: int
    b_rank: int
    a: list[Tile]
    b: list[Tile]
    truth: Tile | None


@dataclass(frozen=True)
class Pair:
    """A sentence pair; ranks within the subtask from 0 (furthest apart in meaning) to 100."""

    subtask: str
    first: str
    second: str
    gold: int
    a: int
    b: int


def queries(
    answers: tuple[Answers, Answers], captions: Captions, pictures: Path | None, *, number: int
) -> tuple[list[Query], list[Query]]:
    """Captions whose picture comes first with one run and is not among the kept answers of the other.

    Where there are too few, those follow whose ranks lie furthest apart. Among equals a hash decides: nobody picks.

    Args:
        answers: of A and B.
        captions: their texts.
        pictures: the folder of resized pictures; None without.
        number: how many, at most, for each run.

    Returns:
        Those that A is better on, and those that B is.
    """
    ranks = [one.ranks.get("caption_to_image", {}) for one in answers]
    depth = min(one.depth for one in answers)
    gains = {
        query: _place(ranks[1][query], depth) - _place(rank, depth)
        for query, rank in ranks[0].items()
        if query in ranks[1]
    }
    chosen = [_most({query: sign * gain for query, gain in gains.items()}, number) for sign in (1, -1)]
    tables = [_first_answers(one, {query for part in chosen for query in part}) for one in answers]
    images = {answer for table in tables for found in table.values() for answer, _ in found}
    images |= {image for part in chosen for image, _ in part}
    shown = {} if pictures is None else thumbnails(pictures, dict.fromkeys(sorted(images), THUMBNAIL))

    def tile(image_id: str, position: int, *, right: bool) -> Tile:
        return Tile(image_id, captions.first.get(image_id, ""), shown.get(image_id), position, right)

    def query(key: tuple[str, int]) -> Query:
        rows = [
            [tile(image, place, right=right) for place, (image, right) in enumerate(table[key], start=1)]
            for table in tables
        ]
        seen = any(one.right for row in rows for one in row)
        text = captions.texts.get(key, f"{key[0]}, caption {key[1]}")
        truth = None if seen else tile(key[0], 0, right=True)
        return Query(text, ranks[0][key], ranks[1][key], rows[0], rows[1], truth)

    better, worse = ([query(key) for key in part] for part in chosen)
    return better, worse


def _place(rank: int, depth: int) -> int:
    return rank if 0 < rank <= depth else depth + 1


def _most(gains: Mapping[tuple[str, int], int], number: int) -> list[tuple[str, int]]:
    """The queries with the largest gains; a picture is asked about once."""
    found: dict[str, tuple[str, int]] = {}
    for key in sorted((key for key, gain in gains.items() if gain > 0), key=lambda key: (-gains[key], by_hash(key))):
        found.setdefault(key[0], key)
    return list(found.values())[:number]


def _first_answers(answers: Answers, keys: set[tuple[str, int]]) -> dict[tuple[str, int], list[tuple[str, bool]]]:
    table = answers.table
    table = table[(table["direction"] == "caption_to_image") & (table["position"] <= TILES)]
    found: dict[tuple[str, int], list[tuple[str, bool]]] = {key: [] for key in keys}
    columns = (table[name].tolist() for name in ("query_image", "query_caption", "image_id", "right"))
    for image, caption, answer, right in zip(*columns, strict=True):
        if (image, caption) in found:
            found[image, caption].append((answer, bool(right)))
    return found


def pairs(tables: tuple[PairTable, PairTable], *, number: int, unseen: bool = False) -> tuple[list[Pair], list[Pair]]:
    """Pairs whose rank one run has nearly right and the other far off.

    Args:
        tables: the scores of A and of B; subtasks that only one has are left out.
        number: how many, at most, for each run.
        unseen: only pairs that neither was trained on; their ranks are still those among all.

    Returns:
        Those that A is better on, and those that B is.
    """
    gains: list[tuple[float, str, Pair]] = []
    for key, ours in tables[0].subtasks.items():
        theirs = tables[1].subtasks.get(key)
        if theirs is None or key[1] == TRAINED or len(ours) < 2 or len(ours) != len(theirs):
            continue
        gold, a, b = ((mean_ranks(values) - 1) / (len(ours) - 1) for values in (ours.gold, ours.score, theirs.score))
        better = np.abs(b - gold) - np.abs(a - gold)
        if unseen:
            better[~unseen_pairs(ours, theirs)] = 0.0
        name = " ".join(key)
        for place in np.unique(np.concatenate([_ends(better, number), _ends(-better, number)])):
            texts = ours.first[place], ours.second[place]
            ranks = [round(100 * float(value[place])) for value in (gold, a, b)]
            gains.append((float(better[place]), by_hash((name, int(place))), Pair(name, *texts, *ranks)))
    return _best(gains, 1, number), _best(gains, -1, number)


def _ends(values: np.ndarray, number: int) -> np.ndarray:
    return np.argsort(-values, kind="stable")[:number]


def _best(gains: Sequence[tuple[float, str, Pair]], sign: int, number: int) -> list[Pair]:
    found = sorted((one for one in gains if sign * one[0] > 0), key=lambda one: (-sign * one[0], one[1]))
    return [pair for _, _, pair in found[:number]]
