"""The retrieval tables: this run's recall with intervals, chance, and published rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sightword.evaluation.published.rows import published
from sightword.report.number_formats import NONE, counted, is_number, percent, plain
from sightword.report.tables import Cell, Row, Table, marked
from sightword.statistics.inference import interval_text, proportion_interval

DEPTHS = ("r1", "r5", "r10")
RECALLS = ("R@1", "R@5", "R@10")
DIRECTIONS = {"caption_to_image": "From a caption to its picture", "image_to_caption": "From a picture to its captions"}
PROTOCOLS = {
    "full": "all pictures of the split",
    "five_fold_1k": "five folds of 1,000 pictures, averaged",
    "querybank": "all pictures of the split, with a query bank from training",
}

FOLDS, OLDER = "COCO 1k", "COCO 1k, earlier systems"
"""Test sets of published rows; rows of older systems do not say their number of test pictures."""
OTHER_SPLIT = "Flickr8k, 1,215 pictures of another split"
PUBLISHED = {"Flickr8k": "full", OTHER_SPLIT: "full", FOLDS: "five_fold_1k", OLDER: "five_fold_1k", "COCO 5k": "full"}
"""The protocol of each test set's published rows."""
_COCO = {"caption_to_image": 25_000, "image_to_caption": 5_000}
QUERIES = {
    "Flickr8k": {"caption_to_image": 5_000, "image_to_caption": 1_000},
    OTHER_SPLIT: {"caption_to_image": 6_075, "image_to_caption": 1_215},
    FOLDS: _COCO,
    "COCO 5k": _COCO,
}
"""Queries of each test set by direction, with five captions a picture; on COCO 1k the sum of all five folds.
No entry where the number is not known."""


def tables(
    retrieval: Mapping[str, Any], captions_each: Mapping[str, Sequence[int]], *, with_published: bool
) -> dict[tuple[str, str], list[Table]]:
    """Return by split and protocol the tables of ``metrics/retrieval.json`` (split -> protocol -> direction -> scores).

    ``captions_each`` has for each split the number of captions of each picture, which determines the chance level.
    A table has the published rows of its protocol.
    """
    found: dict[tuple[str, str], list[Table]] = {}
    for split, protocol, directions in _protocols(retrieval):
        for direction, heading in DIRECTIONS.items():
            scores = directions.get(direction)
            if protocol == "skipped" or not isinstance(scores, Mapping):
                continue
            rows = [_ours(scores)]
            if protocol in ("full", "querybank"):
                rows += _chance(scores, direction, captions_each.get(split, ()))
            groups = _published(direction, protocol) if with_published else []
            one = Table(heading, ("system", *RECALLS, "median rank"), rows, groups, "retrieval sortable")
            found.setdefault((split, _named(protocol)), []).append(one)
    return found


def _named(protocol: str) -> str:
    language = protocol.removeprefix("language_")
    return PROTOCOLS.get(protocol, protocol if language == protocol else f"captions in {language}")


def across_languages(retrieval: Mapping[str, Any]) -> dict[str, Table]:
    """Return by split the table of the recalls of captions by captions in another language."""
    caption = "Percent of the captions with one of the same picture among the first k in the other language"
    head = ("from a caption in, to captions in", *RECALLS, "median rank")
    return {
        split: Table(
            caption,
            head,
            [
                Row(
                    pair.replace("-", " to "),
                    [*(percent(scores.get(depth)) for depth in DEPTHS), plain(scores.get("median_rank"))],
                    "ours",
                )
                for pair, scores in below.items()
            ],
            style="narrow",
        )
        for split, protocol, below in _protocols(retrieval)
        if protocol == "across_languages"
    }


class Composition(NamedTuple):
    """Queries of two attributes on one split, on pictures whose content is known."""

    split: str
    queries: int
    table: Table
    """How the query is made, and R@1, R@5, R@10."""


def compositions(retrieval: Mapping[str, Any], similarity: str) -> list[Composition]:
    """Return the entries ``composition`` of ``metrics/retrieval.json``; ``similarity`` is the encoder's."""
    how = {"order": "elementwise maximum", "reversed_order": "elementwise minimum"}.get(similarity, "sum")
    named = {"dot": "dot product"}.get(similarity, similarity.replace("_", " "))
    names = {"composed": f"{how}, compared by the {named}", "sum": "sum, compared by the cosine"}
    names |= {"alone": "one of the two alone", "chance": "chance"}
    if similarity == "cosine":
        del names["sum"]
    caption = "Percent of the queries with a right picture among the first k"
    found = []
    for split, protocol, below in _protocols(retrieval):
        if protocol == "composition" and is_number(below.get("queries")):
            rows = [
                Row(
                    name,
                    [percent(below.get(key, {}).get(depth)) for depth in DEPTHS],
                    "ours" if key == "composed" else "",
                )
                for key, name in names.items()
            ]
            table = Table(caption, ("composed by", *RECALLS), rows, style="narrow")
            found.append(Composition(split, int(below["queries"]), table))
    return found


def skipped(retrieval: Mapping[str, Any]) -> list[str]:
    """Return each skipped protocol with the reason."""
    return [
        f"{PROTOCOLS.get(name, name)}: {reason}"
        for _, protocol, reasons in _protocols(retrieval)
        if protocol == "skipped"
        for name, reason in reasons.items()
    ]


def _protocols(retrieval: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield split, protocol and the values below."""
    for split, protocols in retrieval.items():
        for protocol, below in protocols.items() if isinstance(protocols, Mapping) else ():
            if isinstance(below, Mapping):
                yield split, protocol, below


def chance(direction: str, captions_each: Sequence[int], depth: int) -> float:
    """Return the expected recall in percent of a random order of the candidates.

    A caption finds its one picture with k / pictures, where k is ``depth``; a picture finds at least one of its m
    captions among all M with 1 - C(M - m, k) / C(M, k).
    """
    if direction == "caption_to_image":
        return 100.0 * min(1.0, depth / len(captions_each))
    total = sum(captions_each)
    missed = [
        math.comb(total - own, depth) / math.comb(total, depth) if total >= depth else 0.0 for own in captions_each
    ]
    return 100.0 * (1.0 - sum(missed) / len(missed))


def _ours(scores: Mapping[str, Any]) -> Row:
    cells = [_cell(scores.get(depth), interval_text(scores.get(f"{depth}_ci95"))) for depth in DEPTHS]
    queries = scores.get("queries")
    detail = counted(int(queries), "query", "queries") if is_number(queries) else ""
    return Row("This run", [*cells, _ranks(scores.get("median_rank"), scores.get("mean_rank"))], "ours", detail)


def _cell(recall: object, interval: str) -> Cell:
    return Cell(percent(recall), [interval] if interval else [])


def _ranks(median: object, mean: object) -> Cell:
    """Return the median rank, and the mean rank below."""
    return Cell(plain(median) if is_number(median) else NONE, [f"mean {percent(mean)}"] if is_number(mean) else [])


def _chance(scores: Mapping[str, Any], direction: str, captions_each: Sequence[int]) -> list[Row]:
    queries, candidates = sum(captions_each), len(captions_each)
    if direction == "image_to_caption":
        queries, candidates = candidates, queries
    if not queries or scores.get("queries") != queries:
        return []
    cells = [percent(chance(direction, captions_each, int(depth[1:]))) for depth in DEPTHS]
    return [Row("Chance", [*cells, NONE], "chance", counted(candidates, "candidate"))]


def _published(direction: str, protocol: str) -> list[tuple[str, list[Row]]]:
    """Return the published rows of a protocol by data set."""
    groups: dict[str, list[Row]] = {}
    for row in published("retrieval"):
        if PUBLISHED[row.setting] != protocol or not any(key.startswith(direction) for key in row.scores):
            continue
        queries = QUERIES.get(row.setting, {}).get(direction)
        r1, r5, r10, *ranks = (row.scores.get(f"{direction} {key}") for key in (*DEPTHS, "median_rank", "mean_rank"))
        cells = [
            _cell(one, interval_text(proportion_interval(one, queries)) if one is not None and queries else "")
            for one in (r1, r5, r10)
        ]
        cells.append(_ranks(*ranks))
        groups.setdefault(row.setting, []).append(Row(row.system, cells, "published", row.cited))
    return [(marked(data), rows) for data, rows in groups.items()]
