"""The content of the page: scenarios in groups, and tables of scores, unseen pairs, tests, gains and neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightword.encoder.pretrained import ENCODER
from sightword.grounded.comparing import ACCURACIES, STRUCTURE, Difference, Gain, Number, Numbers, Results, over_seeds
from sightword.grounded.training.settings import Common
from sightword.io.files import Pathish
from sightword.io.saved import entry
from sightword.report.number_formats import NONE, count, p_value, percent, signed, stars
from sightword.report.tables import Cell, Row, Table

TEXT, GROUNDED, OTHERS, CONTROLS = "Text alone", "Grounded in pictures", "Other published models", "Controls"
GROUPS = (TEXT, GROUNDED, OTHERS, CONTROLS)
"""In the order of the tables."""
LOSSES = {
    "text": "text",
    "cluster": "clusters",
    "perceptual": "pictures",
    "projection": "projection on pictures",
    "ranking": "Cap2Img",
    "cap2cap": "Cap2Cap",
    "captions_as_text": "captions as text",
}
"""The parts of the loss in words."""
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
class Scenario:
    """One scenario, as its saved encoder describes it."""

    training: Common
    features: Mapping[str, Any]  # the root attributes of the features

    @property
    def group(self) -> str:
        """One of :data:`GROUPS`."""
        own = self.training
        if "shuffled" in (own.pictures, own.clusters) or own.pictures == "none":
            return CONTROLS
        if own.captions_as_text or not (own.trains or own.sequential or own.start == "skipthought"):
            return CONTROLS
        if own.sequential or own.concatenate or own.projection or own.ranking or own.cap2cap:
            return OTHERS
        return GROUNDED if own.trains else TEXT

    @property
    def words(self) -> str:
        """The losses with their weights, and all else that tells the scenario from T."""
        own = self.training
        parts = [f"{words} {value:g}" for key, words in LOSSES.items() if (value := getattr(own, key))]
        parts = parts if own.trains else ["regression on pictures, then PCA"] if own.sequential else []
        if own.trains and own.space == "identity" and (own.cluster or own.perceptual):
            parts.append("no g")
        if own.start != "skipthought":
            start = "random weights" if own.start == "scratch" else f"the encoder {own.start}"
            parts.append(f"from {start}" if own.trains else f"{start}, not trained")
        parts += ["trained on with no other loss"] if own.pictures == "none" else []
        parts += [f"{name} shuffled" for name in ("pictures", "clusters") if getattr(own, name) == "shuffled"]
        parts += ["joined with T"] if own.concatenate else []
        return ", ".join(parts) or "the encoder of text as it is"


def read_scenarios(folder: Pathish, names: Sequence[str], seed: int) -> dict[str, Scenario]:
    """Read the parameters of each scenario from the encoders in ``models/grounded``; EncoderError if one is damaged."""
    scenarios = {}
    for name in names:
        place = Path(folder) / f"{name}-{seed}"
        about, _ = ENCODER.read(place)
        with ENCODER.checked(place / ENCODER.description):
            notes = entry(about, "notes", dict)
            scenarios[name] = Scenario(Common.model_validate(notes["training"]), entry(notes, "features", dict))
    return scenarios


def chosen(scenarios: Mapping[str, Scenario], baseline: str) -> str:
    """Return the scenario of the drawings: the grounded one with most losses of captions and pictures.

    Ties: judged in g, then last; else the last other scenario; else the baseline.
    """
    ranked = []
    for place, (name, one) in enumerate(scenarios.items()):
        losses = bool(one.training.cluster) + bool(one.training.perceptual)
        ranked.append((name != baseline, one.group == GROUNDED, losses, one.training.judged == "grounded", place, name))
    return max(ranked)[-1]


def in_groups(scenarios: Mapping[str, Scenario]) -> list[tuple[str, list[str]]]:
    """Return the names of each group that has any."""
    groups = {group: [name for name, one in scenarios.items() if one.group == group] for group in GROUPS}
    return [(group, names) for group, names in groups.items() if names]


@dataclass(frozen=True)
class Findings:
    """The content of the page."""

    scenarios: Mapping[str, Sequence[Results]]
    described: Mapping[str, Scenario]
    baseline: str
    shown: str  # the scenario of the drawings
    tables: Mapping[str, Sequence[Numbers]]  # `structure` and `transfer`
    tests: Sequence[Difference]
    gains: Sequence[Gain] = ()
    text: Mapping[str, Any] = field(default_factory=dict)  # the content of `metrics/grounded/text.json`

    @property
    def first(self) -> Results:
        """The first run of the scenario of the drawings."""
        return self.scenarios[self.shown][0]

    @property
    def structure(self) -> Mapping[str, Any]:
        """The entry of this run's structure, with ``pictures``, ``captions`` and ``k``."""
        measured: Mapping[str, Any] = self.first.metrics["spaces"][self.first.judged]["structure"][self.first.split]
        return measured

    def mean(self, name: str, key: str) -> float | None:
        """Return a scenario's mean of a measure over seeds, times 100 or in percent."""
        runs = self.scenarios[name]
        number = over_seeds(runs, [run.score(key) for run in runs])
        return None if number is None else number[0] if key in ACCURACIES else 100.0 * number[0]


def scores(findings: Findings, table: str, names: Sequence[str], caption: str) -> Table | None:
    """Return the scenarios, each in the space in which it is judged, in groups; None without any."""
    judged = {row.name: row for row in findings.tables[table] if row.kind == "judged"}
    columns = _columns(judged.values(), names)
    floor = [row for row in findings.tables[table] if row.kind == "control"]
    more = [("no network", [Row(row.name, _cells(row, columns), "", row.detail) for row in floor])] if floor else []
    return _grouped(
        findings, caption, columns, lambda name: _cells(judged[name], columns) if name in judged else None, more
    )


def spaces(findings: Findings) -> Table:
    """Return every space of each scenario, and the judged one around the mean caption."""
    rows = [row for row in findings.tables["structure"] if row.kind != "control"]
    columns, groups = _columns(rows, STRUCTURE), dict[str, list[Row]]()
    for row in rows:
        name = _KINDS[row.kind].format(SPACES.get(row.detail, row.detail))
        groups.setdefault(row.name, []).append(Row(name, _cells(row, columns)))
    return _table("All spaces of each scenario", "space", columns, list(groups.items()))


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


def trends(findings: Findings) -> Table | None:
    """Return by scenario the correlation of gain and concreteness over pairs of STS Benchmark."""
    gains = {one.scenario: one for one in findings.gains}

    def cells(name: str) -> list[Cell | str] | None:
        if (one := gains.get(name)) is None:
            return None
        small = [] if one.low is None or one.high is None else [f"{signed(one.low, 2)} to {signed(one.high, 2)}"]
        return [Cell(NONE if one.correlation is None else signed(one.correlation, 2), small), count(one.pairs)]

    return _grouped(findings, "Concreteness and gain", ["ρ over pairs", "pairs"], cells)


def neighbours(findings: Findings) -> Table | None:
    """Return each query with its nearest captions by the baseline and by the scenario of the drawings."""
    groups: dict[str, list[Row]] = {}
    for name in dict.fromkeys((findings.baseline, findings.shown)):
        run = findings.scenarios[name][0]
        table = run.tables["neighbours"]
        for row in table[table["space"] == run.judged].to_dict("records"):
            cells = [name, str(row["rank"]), f"{row['cosine']:.3f}"]
            groups.setdefault(row["query"], []).append(Row(row["sentence"], cells))
    columns = ("nearest caption", "scenario", "rank", "cosine")
    return Table("", columns, groups=list(groups.items())) if groups else None


def _grouped(
    findings: Findings, caption: str, columns: Sequence[str], cells: Callable[[str], Sequence[Cell | str] | None],
    more: Sequence[tuple[str, Sequence[Row]]] = (),
) -> Table | None:  # fmt: skip
    """Return the scenarios that have cells, in their groups, then groups of ``more`` rows; None without scenarios."""
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
    return Cell(_one(number.value), small, stars(number.p))


def _one(value: float) -> str:
    """Format with one decimal, without the sign of a negative zero."""
    return percent(round(value, 1) + 0.0)
