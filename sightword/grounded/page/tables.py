"""The tables of the page as text: scores with stars and intervals, unseen pairs, tests, losses and neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightword.grounded.judging.comparing import Difference, Gain
from sightword.grounded.judging.result_tables import ACCURACIES, STRUCTURE, Number, Numbers
from sightword.grounded.judging.results import RELATED, TRANSFER, Results, over_seeds
from sightword.grounded.judging.subtasks import Trend
from sightword.grounded.page.drawings import Curves
from sightword.grounded.page.scenarios import LOSSES, Scenario, in_groups
from sightword.report.gallery import Tile
from sightword.report.number_formats import NONE, count, is_number, p_value, percent, share, signed, stars
from sightword.report.tables import Cell, Row, Table

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
    """The content of the page."""

    scenarios: Mapping[str, Sequence[Results]]
    described: Mapping[str, Scenario]
    baseline: str
    shown: str
    """The scenario of the drawings."""
    tables: Mapping[str, Sequence[Numbers]]
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
    def first(self) -> Results:
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

    def rows(self, table: str, *, published: bool) -> list[Numbers]:
        """Return the published rows of a table, or all others."""
        return [row for row in self.tables[table] if (row.kind == "published") is published]

    def mean(self, name: str, key: str) -> float | None:
        """Return a scenario's mean of a measure over seeds, times 100 or in percent."""
        runs = self.scenarios[name]
        number = over_seeds(runs, [run.score(key) for run in runs])
        return None if number is None else number[0] if key in ACCURACIES else 100.0 * number[0]


def scores(findings: Findings, table: str, names: Sequence[str], caption: str) -> Table | None:
    """Return the scenarios, each in the space in which it is judged, in groups; None without any."""
    judged = {row.name: row for row in findings.rows(table, published=False) if row.kind == "judged"}
    columns = _columns(judged.values(), names)
    floor = [row for row in findings.rows(table, published=False) if row.kind == "control"]
    more = [("no network", [Row(row.name, _cells(row, columns), "", row.detail) for row in floor])] if floor else []
    return _grouped(
        findings, caption, columns, lambda name: _cells(judged[name], columns) if name in judged else None, more
    )


def spaces(findings: Findings) -> Table:
    """Return every space of each scenario, and the judged one around the mean caption."""
    rows = [row for row in findings.rows("structure", published=False) if row.kind != "control"]
    columns, groups = _columns(rows, STRUCTURE), dict[str, list[Row]]()
    for row in rows:
        name = _KINDS[row.kind].format(SPACES.get(row.detail, row.detail))
        groups.setdefault(row.name, []).append(Row(name, _cells(row, columns)))
    return _table("All spaces of each scenario", "space", columns, list(groups.items()))


def published(findings: Findings) -> list[Table]:
    """Return the published tables of Bordes et al. (2019) for the tables that this run has."""
    found = []
    for head, table, names in (("Table 1 and Figure 3", "structure", STRUCTURE), ("Table 3", "transfer", ACCURACIES)):
        if rows := findings.rows(table, published=True):
            columns = _columns(rows, names)
            lines = [Row(row.name, _cells(row, columns), "published") for row in rows]
            found.append(_table(f"{rows[0].detail}, {head}", "system", columns, [("", lines)]))
    return found


def seen(findings: Findings) -> Table:
    """Return by part its examples, the share of sentences seen in training, and the pairs without a seen sentence."""
    run = findings.first
    entries = {LABELS[key]: run.related(key) for key in RELATED}
    transfer = run.metrics["spaces"][run.transfer_space or run.judged].get("transfer", {})
    entries |= {task: transfer[task] | {"pairs": len(run.right(task))} for task in TRANSFER if task in transfer}
    rows = []
    for name, one in entries.items():
        if is_number(one.get("seen_in_training")):
            unseen = count(one.get("unseen", {}).get("pairs"))
            rows.append(Row(name, [count(one["pairs"]), share(one["seen_in_training"]), unseen]))
    return Table("Test data", ("part", "examples", "sentences seen", "unseen pairs"), rows, style="narrow sortable")


def unseen(findings: Findings) -> Table | None:
    """Return Spearman's correlations over the pairs without a sentence seen in training, and over all pairs."""
    columns = [key for key in RELATED if "unseen" in findings.first.related(key)]

    def cell(name: str, key: str) -> Cell:
        runs = findings.scenarios[name]
        number = over_seeds(runs, [run.related(key)["unseen"]["spearman"] for run in runs])
        value = NONE if number is None else _one(100.0 * number[0])
        return Cell(value, [f"all {percent(findings.mean(name, key))}"])

    caption = "Spearman x 100 on unseen pairs, and on all pairs"
    return _grouped(findings, caption, columns, lambda name: [cell(name, key) for key in columns] or None)


def tests(findings: Findings) -> Table:
    """Return by test the scenario, measure, difference, interval, p, corrected p and stars."""
    rows = []
    for test in findings.tests:
        scale = 1.0 if test.key in ACCURACIES else 100.0
        ends = None if test.low is None or test.high is None else (scale * test.low, scale * test.high)
        interval = NONE if ends is None else f"{signed(ends[0], 1)} to {signed(ends[1], 1)}"
        cells = [LABELS.get(test.key, test.key), signed(scale * test.difference, 1), interval]
        rows.append(Row(test.scenario, [*cells, p_value(test.p), p_value(test.holm), stars(test.holm)]))
    columns = ("scenario", "measure", "difference", "95 % interval", "p", "p, corrected", "stars")
    return Table(f"Differences from {findings.baseline}, times 100", columns, rows, style="sortable listed")


def losses(findings: Findings) -> Table | None:
    """Return the last value of each part of a scenario's loss, in training and on dev, with the judged space."""
    parts = [part for part in LOSSES if any(part in one.loss for one in findings.curves.values())]

    def cells(name: str) -> list[Cell | str]:
        own = findings.curves.get(name, Curves({}, {}, {}))
        last = [[table[part][-1] for table in (own.loss, own.dev) if table.get(part)] for part in parts]
        values = [" / ".join(f"{float(value):.3f}" for value in pair) or NONE for pair in last]
        return [SPACES[findings.described[name].training.judged], *values]

    return _grouped(findings, "Scenarios", ["judged in", *(LOSSES[part] for part in parts)], cells)


def trends(findings: Findings) -> Table | None:
    """Return by scenario the correlation of gain and concreteness over subtasks and over pairs, with their numbers."""
    by_pair = {one.scenario: one for one in findings.gains}

    def cells(name: str) -> list[Cell | str] | None:
        if name not in findings.trends:
            return None
        one, pairs = findings.trends[name], by_pair.get(name)
        rest = [NONE, NONE] if pairs is None else [_rho(*pairs[1:4]), count(pairs.pairs)]
        return [_rho(*one[:3]), count(one.points), *rest]

    columns = ["ρ over subtasks", "subtasks", "ρ over pairs", "pairs"]
    return _grouped(findings, "Concreteness and gain", columns, cells)


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


def _grouped(
    findings: Findings,
    caption: str,
    columns: Sequence[str],
    cells: Callable[[str], Sequence[Cell | str] | None],
    more: Sequence[tuple[str, Sequence[Row]]] = (),
) -> Table | None:
    """Return the scenarios that have cells, in their groups, or None; the one of the drawings stands out.

    Groups of ``more`` rows follow.
    """
    groups: list[tuple[str, Sequence[Row]]] = []
    for group, names in in_groups(findings.described):
        rows = [
            Row(name, own, "ours" if name == findings.shown else "", findings.described[name].words)
            for name in names
            if (own := cells(name)) is not None
        ]
        groups += [(group, rows)] if rows else []
    return _table(caption, "scenario", columns, [*groups, *more]) if groups else None


def _table(caption: str, first: str, columns: Sequence[str], groups: Sequence[tuple[str, Sequence[Row]]]) -> Table:
    labels = [LABELS.get(name, name) for name in columns]
    return Table(caption, [first, *labels], groups=groups, style="sortable spaced")


def _columns(rows: Iterable[Numbers], names: Sequence[str]) -> list[str]:
    known = {name for row in rows for name in row.cells}
    return [name for name in names if name in known]


def _cells(row: Numbers, columns: Sequence[str]) -> list[Cell | str]:
    return [_cell(row.cells.get(name)) for name in columns]


def _cell(number: Number | None) -> Cell | str:
    if number is None:
        return NONE
    small = [] if number.low is None or number.high is None else [f"{_one(number.low)} to {_one(number.high)}"]
    small += [] if number.sd is None else [f"sd {_one(number.sd)}"]
    small += [] if number.misprinted is None else [f"printed {_one(number.misprinted)}"]
    return Cell(_one(number.value), small, stars(number.p))


def _rho(value: float | None, low: float | None, high: float | None) -> Cell:
    small = [] if low is None or high is None else [f"{signed(low, 2)} to {signed(high, 2)}"]
    return Cell(NONE if value is None else signed(value, 2), small)


def _one(value: float) -> str:
    """Format with one decimal, without the sign of a negative zero."""
    return percent(round(value, 1) + 0.0)
