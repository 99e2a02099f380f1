"""Where two runs differ most: captions and sentence pairs that one run has right and the other has not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.comparison.contrast import Answers
from pipeline.comparison.correlations import unseen_pairs
from sightword.evaluation.semantics.breakdown import TRAINED
from sightword.evaluation.semantics.pair_table import PairTable
from sightword.report.gallery import Captions, QueryKey, Tile, answers_of, by_hash, thumbnails
from sightword.statistics.inference import mean_ranks

TILES = 5
"""The number of shown answers of each run."""
THUMBNAIL = 112
"""The longest side of a picture in pixels."""


class Query(NamedTuple):
    """A caption with the first pictures that A and B found, and its own picture if these do not show it.

    ``ranks`` are the positions of its picture with A and with B; 0 if it is not among the kept answers.
    """

    text: str
    ranks: list[int]
    answers: list[list[Tile]]
    truth: Tile | None


class Pair(NamedTuple):
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
    """Return captions whose picture comes first with one run and is not among the kept answers of the other.

    If there are too few, captions with the largest difference of ranks follow. Among equals a hash decides.

    Returns:
        At most ``number`` captions that A is better on, and as many that B is better on.
    """
    ranks = [one.ranks.get("caption_to_image", {}) for one in answers]
    depth = min(one.depth for one in answers)
    places = [{key: rank if 0 < rank <= depth else depth + 1 for key, rank in one.items()} for one in ranks]
    gains = {key: places[1][key] - place for key, place in places[0].items() if key in places[1]}
    chosen = [_most(gains, number), _most({key: -gain for key, gain in gains.items()}, number)]
    keys = [key for part in chosen for key in part]
    wanted = f"direction == 'caption_to_image' and position <= {TILES}"
    tables = [answers_of(one.table.query(wanted), keys) for one in answers]
    images = {answer[0] for table in tables for found in table.values() for answer in found} | {key[0] for key in keys}
    shown = {} if pictures is None else thumbnails(pictures, dict.fromkeys(sorted(images), THUMBNAIL))

    def query(key: QueryKey) -> Query:
        rows = [[captions.picture(image, shown, at, right=right) for image, _, at, right in one[key]] for one in tables]
        truth = None if any(one.right for row in rows for one in row) else captions.picture(key[0], shown)
        return Query(captions.text(key), [one[key] for one in ranks], rows, truth)

    better, worse = ([query(key) for key in part] for part in chosen)
    return better, worse


def _most(gains: Mapping[QueryKey, int], number: int) -> list[QueryKey]:
    """Return the queries with the largest gains, one for each picture."""
    found: dict[str, QueryKey] = {}
    for key in sorted((key for key, gain in gains.items() if gain > 0), key=lambda key: (-gains[key], by_hash(key))):
        found.setdefault(key[0], key)
    return list(found.values())[:number]


def pairs(tables: tuple[PairTable, PairTable], *, number: int, unseen: bool = False) -> tuple[list[Pair], list[Pair]]:
    """Return pairs whose rank one run has nearly right and the other far off, in the subtasks of both.

    With ``unseen`` only pairs that neither run was trained on; their ranks are still among all pairs.

    Returns:
        At most ``number`` pairs that A is better on, and as many that B is better on.
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
        ends = [np.argsort(-sign * better, kind="stable")[:number] for sign in (1, -1)]
        for place in np.unique(np.concatenate(ends)):
            ranks = [round(100 * float(value[place])) for value in (gold, a, b)]
            pair = Pair(name, ours.first[place], ours.second[place], *ranks)
            gains.append((float(better[place]), by_hash((name, int(place))), pair))
    better_a, better_b = (
        sorted((-sign * gain, order, pair) for gain, order, pair in gains if sign * gain > 0)[:number]
        for sign in (1, -1)
    )
    return [pair for _, _, pair in better_a], [pair for _, _, pair in better_b]
