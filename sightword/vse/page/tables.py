"""The tables of the page: recall, and sentence similarity, with intervals, controls and published rows; and sentence
pairs: points of scatter plots, and the largest errors.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightword.evaluation.published import SYSTEMS, Score, in_mean, published
from sightword.evaluation.semantics.datasets import AGGREGATES
from sightword.evaluation.semantics.results import PairTable, ScoredPairs, read_pairs
from sightword.evaluation.semantics.tables import DRAWN, THIS, TRAINED
from sightword.report.inputs import numbers, read_tsv, texts
from sightword.report.number_formats import (
    NONE,
    correlation,
    count,
    counted,
    is_number,
    much_seen,
    percent,
    plain,
    share,
)
from sightword.report.tables import Cell, Row, Table, breakable, marked, quotes
from sightword.statistics.inference import interval_text, pearson, proportion_interval, with_interval

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

CONTROLS = {"tfidf": "tf-idf", "untrained": "untrained", "chance": "chance"}
"""The heads of the columns of controls."""
Scored = tuple[str, str, Mapping[str, Any]]
"""Data set, subtask and scores; the subtask is empty for a set with only one."""

PANELS, POINTS = 8, 3_000
"""The most data sets with a scatter plot, and the most pairs that all scatter plots draw."""
LISTED = 20
"""The number of listed pairs with the largest disagreement between people and the encoder."""
WORST = ("subtask", "gold", "score", "gold_rank", "score_rank", "first", "second")
"""The shown columns of ``worst.tsv``."""


def retrieval(
    metrics: Mapping[str, Any], captions_each: Mapping[str, Sequence[int]], *, with_published: bool
) -> dict[tuple[str, str], list[Table]]:
    """Return by split and protocol the tables of ``metrics/retrieval.json`` (split -> protocol -> direction -> scores).

    ``captions_each`` has for each split the number of captions of each picture, which determines the chance level.
    A table has the published rows of its protocol.
    """
    tables: dict[tuple[str, str], list[Table]] = {}
    for split, protocol, directions in _protocols(metrics):
        for direction, heading in DIRECTIONS.items():
            scores = directions.get(direction)
            if protocol == "skipped" or not isinstance(scores, Mapping):
                continue
            rows = [_ours(scores)]
            if protocol in ("full", "querybank"):
                rows += _chance(scores, direction, captions_each.get(split, ()))
            groups = _published(direction, protocol) if with_published else []
            table = Table(heading, ("system", *RECALLS, "median rank"), rows, groups, "retrieval sortable")
            tables.setdefault((split, _named(protocol)), []).append(table)
    return tables


def _named(protocol: str) -> str:
    language = protocol.removeprefix("language_")
    return PROTOCOLS.get(protocol, protocol if language == protocol else f"captions in {language}")


def across_languages(metrics: Mapping[str, Any]) -> dict[str, Table]:
    """Return by split the table of the recalls of captions by captions in another language."""
    caption = "Percent of the captions with one of the same picture among the first k in the other language"
    head = ("from a caption in, to captions in", *RECALLS, "median rank")
    return {
        split: Table(
            caption,
            head,
            [
                Row(
                    pair if " to " in pair else pair.replace("-", " to "),
                    [*(percent(scores.get(depth)) for depth in DEPTHS), plain(scores.get("median_rank"))],
                    "ours",
                )
                for pair, scores in below.items()
            ],
            style="narrow",
        )
        for split, protocol, below in _protocols(metrics)
        if protocol == "across_languages"
    }


def short_queries(metrics: Mapping[str, Any]) -> dict[str, Table]:
    """Return by split the table of the scores of short queries."""
    head = ("query", "mean average precision", "first picture right", "by chance", "queries")
    return {
        split: Table(
            "Runs of words from the captions, with no word from more than a third of the pictures at their ends; "
            "a picture is right if one of its captions has the run",
            head,
            [
                Row(
                    name.replace("_", " "),
                    [
                        _cell(scores["map"], interval_text(scores["map_ci95"])),
                        _cell(scores["first_right"], interval_text(scores["first_right_ci95"])),
                        percent(scores["first_right_chance"]),
                        count(scores["queries"]),
                    ],
                    "ours",
                )
                for name, scores in below.items()
            ],
            style="narrow",
        )
        for split, protocol, below in _protocols(metrics)
        if protocol == "short_queries"
    }


def skipped(metrics: Mapping[str, Any]) -> list[str]:
    """Return the scores of retrieval that are left out, each with the reason."""
    return [
        f"{PROTOCOLS.get(name, name.replace('_', ' '))}: {reason}"
        for _, protocol, reasons in _protocols(metrics)
        if protocol == "skipped"
        for name, reason in reasons.items()
    ]


def _protocols(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield split, protocol and the values below."""
    for split, protocols in metrics.items():
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


def correlations(semantics: Mapping[str, Any]) -> Table | None:
    """Return the correlations of ``metrics/semantics.json``, by data set and in order; None without any."""
    groups: dict[str, list[Row]] = {}
    named = [name for name in _controls(semantics) if name != "chance"]

    def beside(task: str, key: str) -> list[str]:
        entries = (_controls(semantics)[name].get(task, {}).get(key) for name in named)
        return [correlation(one) if is_number(one) else "" for one in entries]

    for name, key, scores in scored(semantics):
        groups.setdefault(name, []).append(_row(key or "cosine", scores, beside(name, key or "cosine")))
    blocks = []
    for name, rows in groups.items():
        means = ((label, key, semantics[name].get(key)) for key, label in AGGREGATES.items())
        rows += [
            _row(label, mean, beside(name, key), aggregate=True)
            for label, key, mean in means
            if isinstance(mean, Mapping)
        ]
        alone = len(rows) == 1 and "pearson" in semantics[name]
        blocks.append(("", [rows[0]._replace(name=breakable(name))]) if alone else (name, rows))
    columns = ("set", "Pearson", *(CONTROLS[name] for name in named), "Spearman", "pairs", "seen")
    style = "semantics sortable across"
    return Table("Pearson's r and Spearman's ρ", columns, groups=blocks, style=style) if blocks else None


def _controls(semantics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores of the controls by name and task."""
    controls = semantics.get("controls", {})
    return {name: controls[name] for name in CONTROLS if name in controls}


def _row(name: str, scores: Mapping[str, Any], controls: Sequence[str], *, aggregate: bool = False) -> Row:
    ends, unseen = scores.get("pearson_ci95"), scores.get("unseen")
    interval = [f"{correlation(ends[0])} to {correlation(ends[1])}"] if ends else []
    pairs, seen = ("", "") if aggregate else (count(scores["pairs"]), share(scores.get("seen_in_training")))
    rest = []
    if unseen and unseen["pairs"] != scores.get("pairs"):
        rest = [f"{correlation(unseen['pearson'])} of {count(unseen['pairs'])}"]
    cells: list[Cell | str] = [
        Cell(correlation(scores["pearson"]), interval),
        *controls,
        correlation(scores.get("spearman")),
        pairs,
        Cell(seen, rest, style="seen" if not aggregate and much_seen(scores) else ""),
    ]
    return Row(breakable(name), cells, "aggregate" if aggregate else "")


def accuracies(semantics: Mapping[str, Any]) -> Table | None:
    """Return the accuracies of tasks with classes, in order; None without any."""
    known = [(CONTROLS[name], tasks) for name, tasks in _controls(semantics).items() if name != "tfidf"]
    rows = [
        Row(
            name,
            [
                with_interval(one["accuracy"], one.get("accuracy_ci95")),
                *(percent(tasks.get(name)) for _, tasks in known),
                percent(one.get("f1")),
                count(one.get("test")),
                share(one.get("seen_in_training")),
            ],
        )
        for name, one in semantics.items()
        if isinstance(one, Mapping) and "accuracy" in one
    ]
    columns = ("set", "accuracy", *(head for head, _ in known), "F1", "examples", "seen")
    return Table("Accuracy", columns, rows, style="sortable narrow") if rows else None


def headline(semantics: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the mean Pearson r over all STS subtasks and a description of the subtasks."""
    values = [scores["pearson"] for _, _, scores in _subtasks(semantics)]
    if not values:
        return None
    return f"{len(values)} STS subtasks" if len(values) > 1 else "one STS subtask", sum(values) / len(values)


def headline_of(semantics: Mapping[str, Any], control: str) -> float | None:
    """Return the mean Pearson r of a control over the subtasks of :func:`headline`; None without the control."""
    known = _controls(semantics).get(control, {})
    values = [known.get(task, {}).get(key) for task, key, _ in _subtasks(semantics)]
    numbers = [one for one in values if is_number(one)]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None


def _subtasks(semantics: Mapping[str, Any]) -> list[Scored]:
    """Return the STS subtasks with a correlation."""
    return [
        (name, key, scores)
        for name, key, scores in scored(semantics)
        if in_mean((name, key)) and is_number(scores["pearson"])
    ]


def scored(semantics: Mapping[str, Any]) -> Iterator[Scored]:
    """Yield everything scored, in order."""
    for name, body in semantics.items():
        below = {"": body, **body} if isinstance(body, Mapping) else {}
        for key, value in below.items():
            if key not in AGGREGATES and isinstance(value, Mapping) and "pearson" in value and "pairs" in value:
                yield name, key, value


class Panel(NamedTuple):
    """The scatter plot of a data set: the number of all its pairs, Pearson's r over them, and N drawn pairs.

    ``gold`` (N,) are human scores, ``score`` (N,) the encoder's cosines; ``seen`` (N,) is whether one of the
    sentences is known to be a training caption.
    """

    task: str
    pairs: int
    pearson: float | None
    gold: NDArray[np.float64]
    score: NDArray[np.float64]
    seen: NDArray[np.bool_]


class SentencePairs(NamedTuple):
    """All contents about sentence pairs; missing inputs give empty lists."""

    panels: list[Panel]
    others: int
    """The number of data sets beyond :data:`PANELS`."""
    worst: list[dict[str, str]]
    """Lines of ``worst.tsv`` by :data:`WORST`."""
    systems: list[tuple[str, dict[str, Score]]]
    """Each subtask with the correlations of this encoder and of the systems in Figure 3 of Merkx & Frank (2019)."""


def read_sentence_pairs(data: Path, plots: Path, *, with_published: bool) -> SentencePairs:
    """Read the results of the stage semantics: ``pairs.parquet`` and ``worst.tsv`` in ``data``, the rest in ``plots``.

    At most :data:`POINTS` points, over all data sets, and :data:`LISTED` pairs are shown.

    Raises:
        FileFormatError: a file is damaged or of another form.
    """
    pairs = data / "pairs.parquet"
    table = read_pairs(pairs) if pairs.exists() else PairTable({})
    drawn, others = panels(table, POINTS)
    systems = _systems(plots / "systems.tsv") if with_published else []
    return SentencePairs(drawn, others, _worst(data / "worst.tsv")[:LISTED], systems)


def panels(table: PairTable, most: int) -> tuple[list[Panel], int]:
    """Return the scatter plots of the first :data:`PANELS` data sets, and the number of other data sets.

    A hash of data set, subtask and index selects the pairs to draw: ``most`` in all, evenly spread over the data sets;
    large sets get the rest of small ones.
    """
    tasks: dict[str, list[tuple[str, ScoredPairs]]] = {}
    for (task, subtask), pairs in table.subtasks.items():
        if subtask != TRAINED and len(pairs):
            tasks.setdefault(task, []).append((subtask, pairs))
    names = list(tasks)[:PANELS]
    left, shares = most, {}
    sizes = {name: sum(len(pairs) for _, pairs in tasks[name]) for name in names}
    for number, name in enumerate(sorted(names, key=sizes.__getitem__)):
        shares[name] = min(sizes[name], left // (len(names) - number))
        left -= shares[name]
    return [_panel(name, tasks[name], shares[name]) for name in names], len(tasks) - len(names)


def _panel(task: str, subtasks: Sequence[tuple[str, ScoredPairs]], most: int) -> Panel:
    gold, score = (np.concatenate([getattr(pairs, name) for _, pairs in subtasks]) for name in ("gold", "score"))
    seen = np.concatenate([seen_pairs(pairs) for _, pairs in subtasks])
    places = [f"{task}\n{subtask}\n{place}" for subtask, pairs in subtasks for place in range(len(pairs))]
    order = sorted(range(len(places)), key=lambda row: hashlib.sha256(places[row].encode()).digest())
    chosen = np.sort(np.array(order[:most], dtype=int))
    return Panel(task, len(gold), pearson(score, gold), gold[chosen], score[chosen], seen[chosen])


def seen_pairs(pairs: ScoredPairs) -> NDArray[np.bool_]:
    """Return whether a sentence of a pair is known to be a training caption, (N,)."""
    if pairs.first_seen is None or pairs.second_seen is None:
        return np.zeros(len(pairs), dtype=bool)
    return pairs.first_seen | pairs.second_seen


def _worst(path: Path) -> list[dict[str, str]]:
    columns = read_tsv(path)
    cells = [texts(columns, name, where=path) for name in WORST] if columns else []
    return [dict(zip(WORST, row, strict=True)) for row in zip(*cells, strict=True)]


def worst_table(worst: Sequence[Mapping[str, str]]) -> Table:
    """Return the table of the worst pairs."""
    rows = [
        Row(
            quotes(one["first"], one["second"]),
            [Cell(one[f"{name}_rank"], [one[name]]) for name in ("gold", "score")],
            detail=one["subtask"],
        )
        for one in worst
    ]
    return Table("Largest errors", ("sentences", "human rank", "encoder's rank"), rows, style="worst sortable")


def _systems(path: Path) -> list[tuple[str, dict[str, Score]]]:
    columns = read_tsv(path)
    if not columns:
        return []
    names, systems = (texts(columns, name, where=path) for name in ("name", "system"))
    values = [numbers(columns, name, where=path) for name in ("pearson", "lo", "hi")]
    wanted = {THIS, *(SYSTEMS[name] for name in DRAWN)}
    by_language: dict[str, dict[str, Score]] = {}
    for name, system, r, low, high in zip(names, systems, *values, strict=True):
        if system in wanted:
            by_language.setdefault(name, {})[system] = Score(r, low, high)
    return [(name, scores) for name, scores in by_language.items() if len(scores) > 1]
