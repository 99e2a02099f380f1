"""The tables of the page as text: scores with stars and intervals, unseen pairs, tests, losses and neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sightword.grounded.judging.subtasks import Trend
from sightword.grounded.page.comparing import Difference, Gain
from sightword.grounded.page.drawings import Curves
from sightword.grounded.page.result_tables import ACCURACIES, STRUCTURE, Cell, Row
from sightword.grounded.page.results import RELATED, TRANSFER, Run
from sightword.grounded.page.scenarios import LOSSES, Scenario, in_groups
from sightword.grounded.page.summary import over_seeds
from sightword.report.gallery import Tile
from sightword.report.number_formats import NONE, count, is_number, percent, share, signed

LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
LABELS = {
    "mnno": "mNNO",
    "rho_vis": "ρ vis",
    "c_inter": "C inter",
    "c_intra": "C intra",
    "stsb": "STS-B all",
    "stsb_captions": "STS-B captions",
    "stsb_news": "STS-B news",
    "stsb_forums": "STS-B forums",
    "sick": "SICK",
    "SICKEntailment": "SICK",
    "MRPC_f1": "MRPC F1",
    "transfer_mean": "mean",
}
SPACES = {"sentence": "s", "grounded": "g(s)", "visual": "f(s)"}
_KINDS = {"judged": "{}, judged", "space": "{}", "centred": "{}, centred"}


@dataclass(frozen=True)
class Findings:
    """All that the page shows."""

    scenarios: Mapping[str, Sequence[Run]]
    described: Mapping[str, Scenario]
    baseline: str
    shown: str
    """The scenario of the drawings."""
    tables: Mapping[str, Sequence[Row]]
    """``structure`` and ``transfer``, with published rows at the end."""
    tests: Sequence[Difference]
    gains: Sequence[Gain] = ()
    trends: Mapping[str, Trend] = field(default_factory=dict)
    """By scenario."""
    curves: Mapping[str, Curves] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)
    """The content of ``metrics/grounded/text.json``."""
    textual: Mapping[str, Any] = field(default_factory=dict)
    """The content of ``metrics/grounded/skipthought.json``."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """By sentence, the picture of those among ``evaluate.neighbours`` that are captions of the split."""
    thumbnails: Mapping[str, str] = field(default_factory=dict)
    """Data URIs by picture."""

    @property
    def first(self) -> Run:
        """The first run of the scenario of the drawings."""
        return self.scenarios[self.shown][0]

    @property
    def structure(self) -> Mapping[str, Any]:
        """The entry of this run's structure, with ``pictures``, ``captions`` and ``k``."""
        found: Mapping[str, Any] = self.first.metrics["spaces"][self.first.judged]["structure"][self.first.split]
        return found

    @property
    def beyond(self) -> int:
        """The number of differences beyond chance."""
        return sum(bool(stars(test.holm)) for test in self.tests)

    def rows(self, table: str, *, published: bool) -> list[Row]:
        """Return the published rows of a table, or all others."""
        return [row for row in self.tables[table] if (row.kind == "published") is published]

    def mean(self, name: str, key: str) -> float | None:
        """Return a scenario's mean of a measure over seeds, times 100 or in percent."""
        runs = self.scenarios[name]
        number = over_seeds(runs, [run.score(key) for run in runs])
        return None if number is None else number[0] if key in ACCURACIES else 100.0 * number[0]


class Shown(NamedTuple):
    """A cell: the value, its stars, and the small print below it."""

    text: str
    stars: str = ""
    small: tuple[str, ...] = ()


class Line(NamedTuple):
    """A line of a table: its class in the style, its name, a few words, and cells."""

    kind: str
    name: str
    words: str
    cells: list[Shown]


class Table(NamedTuple):
    """A table whose lines stand in groups."""

    columns: list[str]
    groups: list[tuple[str, list[Line]]]


def stars(p: float | None) -> str:
    """Return the stars of a corrected p, as in the published tables."""
    return next((text for level, text in LEVELS if p is not None and p < level), "")


def scores(findings: Findings, table: str, names: Sequence[str]) -> Table:
    """Return the scenarios, each in the space in which it is judged, in groups."""
    judged = {row.name: row for row in findings.rows(table, published=False) if row.kind == "judged"}
    columns = _columns(judged.values(), names)
    return _grouped(findings, columns, lambda name: _cells(judged[name], columns) if name in judged else None)


def spaces(findings: Findings) -> Table:
    """Return every space of each scenario, and the judged one around the mean caption."""
    rows = findings.rows("structure", published=False)
    columns, groups = _columns(rows, STRUCTURE), dict[str, list[Line]]()
    for row in rows:
        name = _KINDS[row.kind].format(SPACES.get(row.detail, row.detail))
        groups.setdefault(row.name, []).append(Line("", name, "", _cells(row, columns)))
    return Table(_labels(columns), list(groups.items()))


def published(findings: Findings) -> list[tuple[str, Table]]:
    """Return the tables of Bordes et al. (2019) that belong beside those of this run."""
    found = []
    for head, table, names in (("Table 1 and Figure 3", "structure", STRUCTURE), ("Table 3", "transfer", ACCURACIES)):
        if rows := findings.rows(table, published=True):
            columns = _columns(rows, names)
            lines = [Line("published", row.name, "", _cells(row, columns)) for row in rows]
            found.append((head, Table(_labels(columns), [("", lines)])))
    return found


def seen(findings: Findings) -> list[tuple[str, str, str, str]]:
    """Return by part its examples, the share of sentences seen in training, and the pairs without a seen sentence."""
    run = findings.first
    entries = {LABELS[key]: run.related(key) for key in RELATED}
    transfer = run.metrics["spaces"][run.transfer_space or run.judged].get("transfer", {})
    entries |= {task: transfer[task] | {"pairs": len(run.right(task))} for task in TRANSFER if task in transfer}
    return [
        (name, count(one["pairs"]), share(one["seen_in_training"]), count(one.get("unseen", {}).get("pairs")))
        for name, one in entries.items()
        if is_number(one.get("seen_in_training"))
    ]


def unseen(findings: Findings) -> Table:
    """Return Spearman's correlations over the pairs without a sentence seen in training, and over all pairs."""
    columns = [key for key in RELATED if "unseen" in findings.first.related(key)]

    def cell(name: str, key: str) -> Shown:
        runs = findings.scenarios[name]
        number = over_seeds(runs, [run.related(key)["unseen"]["spearman"] for run in runs])
        text = NONE if number is None else _one(100.0 * number[0])
        return Shown(text, "", (f"all {percent(findings.mean(name, key))}",))

    table = _grouped(findings, columns, lambda name: [cell(name, key) for key in columns])
    return table if columns else Table([], [])


def tests(findings: Findings) -> list[tuple[str, ...]]:
    """Return by test the scenario, measure, difference, interval, p, corrected p and stars."""
    found: list[tuple[str, ...]] = []
    for test in findings.tests:
        scale = 1.0 if test.key in ACCURACIES else 100.0
        ends = None if test.low is None or test.high is None else (scale * test.low, scale * test.high)
        interval = NONE if ends is None else f"{signed(ends[0], 1)} to {signed(ends[1], 1)}"
        head = (test.scenario, LABELS.get(test.key, test.key), signed(scale * test.difference, 1), interval)
        found.append((*head, _p(test.p), _p(test.holm), stars(test.holm)))
    return found


def losses(findings: Findings) -> Table:
    """Return the last value of each part of a scenario's loss, in training and on dev, with the judged space."""
    parts = [part for part in LOSSES if any(part in one.loss for one in findings.curves.values())]

    def cells(name: str) -> list[Shown]:
        own = findings.curves.get(name, Curves({}, {}, {}))
        last = [[table[part][-1] for table in (own.loss, own.dev) if table.get(part)] for part in parts]
        values = [" / ".join(f"{float(value):.3f}" for value in pair) or NONE for pair in last]
        return [Shown(SPACES[findings.described[name].training.judged]), *map(Shown, values)]

    return _grouped(findings, ["judged in", *(LOSSES[part] for part in parts)], cells)


def trends(findings: Findings) -> Table:
    """Return by scenario the correlation of gain and concreteness over subtasks and over pairs, with their numbers."""
    by_pair = {one.scenario: one for one in findings.gains}

    def cells(name: str) -> list[Shown] | None:
        if name not in findings.trends:
            return None
        one, pairs = findings.trends[name], by_pair.get(name)
        rest = [Shown(NONE)] * 2 if pairs is None else [_rho(*pairs[1:4]), Shown(count(pairs.pairs))]
        return [_rho(*one[:3]), Shown(count(one.points)), *rest]

    return _grouped(findings, ["ρ over subtasks", "subtasks", "ρ over pairs", "pairs"], cells)


def neighbours(findings: Findings) -> list[dict[str, Any]]:
    """Return each query with its nearest captions by the baseline and by the scenario of the drawings."""

    def tile(image: str, sentence: str, rank: int) -> Tile:
        return Tile(image, sentence, rank, right=False, thumbnail=findings.thumbnails.get(image))

    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys((findings.baseline, findings.shown)):
        run = findings.scenarios[name][0]
        table = run.tables["neighbours"]
        for row in table[table["space"] == run.judged].to_dict("records"):
            query = row["query"]
            asked = tile(findings.asked[query], query, 0) if query in findings.asked else None
            one = found.setdefault(query, {"query": query, "asked": asked, "lists": {}})
            near = tile(row["image_id"], row["sentence"], row["rank"])
            one["lists"].setdefault(name, []).append((near, f"{row['cosine']:.3f}"))
    return list(found.values())


def _grouped(findings: Findings, columns: Sequence[str], cells: Callable[[str], list[Shown] | None]) -> Table:
    """Return the scenarios that have cells, in their groups; the one of the drawings stands out."""
    groups = []
    for group, names in in_groups(findings.described):
        lines = [
            Line("ours" if name == findings.shown else "", name, findings.described[name].words, own)
            for name in names
            if (own := cells(name)) is not None
        ]
        groups.append((group, lines))
    return Table(_labels(columns), [(group, lines) for group, lines in groups if lines])


def _labels(columns: Sequence[str]) -> list[str]:
    return [LABELS.get(name, name) for name in columns]


def _columns(rows: Iterable[Row], names: Sequence[str]) -> list[str]:
    known = {name for row in rows for name in row.cells}
    return [name for name in names if name in known]


def _cells(row: Row, columns: Sequence[str]) -> list[Shown]:
    return [_cell(row.cells.get(name)) for name in columns]


def _cell(cell: Cell | None) -> Shown:
    if cell is None:
        return Shown(NONE)
    small = [] if cell.low is None or cell.high is None else [f"{_one(cell.low)} to {_one(cell.high)}"]
    small += [] if cell.sd is None else [f"sd {_one(cell.sd)}"]
    small += [] if cell.misprinted is None else [f"printed {_one(cell.misprinted)}"]
    return Shown(_one(cell.value), stars(cell.p), tuple(small))


def _rho(value: float | None, low: float | None, high: float | None) -> Shown:
    small = () if low is None or high is None else (f"{signed(low, 2)} to {signed(high, 2)}",)
    return Shown(NONE if value is None else signed(value, 2), "", small)


def _one(value: float) -> str:
    """Format with one decimal, without the sign of a negative zero."""
    return percent(round(value, 1) + 0.0)


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"
