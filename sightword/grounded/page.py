"""Writes the page of all scenarios: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sightword.features.origin import describe, random_weights
from sightword.grounded.comparing import Difference, Gain
from sightword.grounded.drawings import Curves
from sightword.grounded.grounded_settings import GroundedSettings
from sightword.grounded.published import SOURCE, TRANSFER
from sightword.grounded.results import RELATED, Run
from sightword.grounded.scenarios import CONTROLS, LOSSES, Scenario, in_groups
from sightword.grounded.subtasks import Trend
from sightword.grounded.summary import over_seeds
from sightword.grounded.tables import ACCURACIES, STRUCTURE, Cell, Row
from sightword.report import html_page
from sightword.report.drawing import Drawing
from sightword.report.gallery import Tile
from sightword.report.notes import DEMONSTRATED
from sightword.report.number_formats import NONE, counted, flat, is_number, percent, plain, share, signed
from sightword.report.semantics_table import much_seen

FILES = ("page.html", "page.css")
"""The files beside this module from which :func:`sightword.report.html_page.render` makes the page."""
LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
LABELS = {"mnno": "mNNO", "rho_vis": "ρ vis", "c_inter": "C inter", "c_intra": "C intra"}
LABELS |= {"stsb": "STS-B all", "stsb_captions": "captions", "stsb_news": "news", "stsb_forums": "forums"}
LABELS |= {"sick": "SICK", "SICKEntailment": "SICK", "MRPC_f1": "MRPC F1", "transfer_mean": "mean"}
SPACES = {"sentence": "s, the encoder's vector", "grounded": "g(s), grounded", "visual": "f(s), among pictures"}
FEW = 1_000_000
"""With fewer sentences of text, a run says little about a method that was published with 74 million."""
MANY = 60
"""A table with more rows is folded up."""


@dataclass(frozen=True)
class Results:
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
    """By sentence, the picture of those among ``judge.neighbours`` that are captions of the split."""
    thumbnails: Mapping[str, str] = field(default_factory=dict)
    """Data URIs by picture."""

    @property
    def first(self) -> Run:
        """The first run of the scenario of the drawings."""
        return self.scenarios[self.shown][0]


class Shown(NamedTuple):
    """A cell: the value, its stars, and the small print below it."""

    text: str
    stars: str = ""
    small: tuple[str, ...] = ()


def render(results: Results, drawings: Sequence[tuple[str, Drawing]], settings: GroundedSettings) -> str:
    """Return the text of the page; ``drawings`` are captions and drawings."""
    drawn = {one.name: (caption, html_page.inline(one)) for caption, one in drawings}
    special = ("neighbours", "plane", "gain")
    structure, transfer = ([row for row in rows if row.kind != "published"] for rows in results.tables.values())
    published = [
        (head, _columns(rows, names), [_view(row, _columns(rows, names)) for row in rows])
        for head, table, names in (("Table 1", "structure", STRUCTURE), ("Table 3", "transfer", ACCURACIES))
        if (rows := [row for row in results.tables[table] if row.kind == "published"])
    ]
    return html_page.render(
        "sightword.grounded",
        title=settings.title,
        story=_story(results),
        notes=_notes(results, settings),
        headlines=_headlines(results),
        baseline=results.baseline,
        shown=results.shown,
        split=results.first.split,
        structure=_structure(results),
        labels=LABELS,
        seeds=len(results.scenarios[results.shown]),
        table1=_grouped(results, structure, STRUCTURE),
        table3=_grouped(results, transfer, ACCURACIES),
        spaces=_spaces(structure),
        transfer_space=SPACES.get(results.first.transfer_space or "", ""),
        seen=_seen(results),
        unseen=_unseen(results),
        tests=_tests(results.tests),
        many=MANY,
        drawn={name: drawn.get(name) for name in special},
        training=[one for name, one in drawn.items() if name not in special],
        losses=_losses(results),
        neighbours=_neighbours(results),
        trends=_trends(results),
        published=published,
        gap=_gap(results),
        misprints=_misprints(results),
        source=SOURCE,
        facts=_facts(results, settings),
    )


def stars(p: float | None) -> str:
    """Return the stars of a corrected p, as in the published tables."""
    return next((text for level, text in LEVELS if p is not None and p < level), "")


def _structure(results: Results) -> Mapping[str, Any]:
    run = results.first
    found: Mapping[str, Any] = run.metrics["spaces"][run.judged]["structure"][run.split]
    return found


def _columns(rows: Iterable[Row], names: Sequence[str]) -> list[str]:
    known = {name for row in rows for name in row.cells}
    return [name for name in names if name in known]


def _cell(cell: Cell | None) -> Shown:
    if cell is None:
        return Shown(NONE)
    small = [] if cell.low is None or cell.high is None else [f"{cell.low:.1f} to {cell.high:.1f}"]
    small += [] if cell.sd is None else [f"sd {cell.sd:.1f}"]
    small += [] if cell.misprinted is None else [f"printed {cell.misprinted:.1f}"]
    return Shown(percent(cell.value), stars(cell.p), tuple(small))


def _view(row: Row, columns: Sequence[str], words: str = "", *, ours: bool = False) -> dict[str, Any]:
    kind = "ours" if ours else "published" if row.kind == "published" else ""
    return {"kind": kind, "name": row.name, "words": words, "cells": [_cell(row.cells.get(one)) for one in columns]}


def _grouped(results: Results, rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any]:
    judged = {row.name: row for row in rows if row.kind == "judged"}
    columns = _columns(judged.values(), names)
    groups = [
        (
            group,
            [
                _view(judged[name], columns, results.described[name].words, ours=name == results.shown)
                for name in members
                if name in judged
            ],
        )
        for group, members in in_groups(results.described)
    ]
    return {"columns": columns, "groups": [(group, members) for group, members in groups if members]}


def _spaces(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the rows of each scenario, every space and the judged one around the mean caption."""
    columns = _columns(rows, STRUCTURE)
    names = {"judged": "{}, judged", "space": "{}", "centred": "{}, around the mean caption"}
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        name = names[row.kind].format(SPACES.get(row.detail, row.detail))
        groups.setdefault(row.name, []).append(_view(row, columns) | {"name": name})
    return {"columns": columns, "groups": list(groups.items())}


def _mean(runs: Sequence[Run], key: str) -> float | None:
    """Return the mean of a measure over seeds, times 100 or in percent."""
    number = over_seeds([run.score(key) for run in runs])
    return None if number is None else number[0] if key in ACCURACIES else 100.0 * number[0]


def _story(results: Results) -> str:
    base, shown = results.baseline, results.shown
    text, captions = results.text.get("sentences"), results.text.get("captions", {}).get("train", {}).get("captions")
    found = []
    if text and captions:
        found.append(
            f"An encoder learned from {text:,} sentences of text. Then it read {captions:,} captions with their "
            "pictures: captions of one picture should lie together, and captions of alike pictures near each other."
        )
    if shown != base:
        named = [(key, words) for key, words in _HEADLINES if _mean(results.scenarios[shown], key) is not None]
        found += [
            f"{words[0].upper()}{words[1:]}: {base} {percent(_mean(results.scenarios[base], key))}, {shown} "
            f"{percent(_mean(results.scenarios[shown], key))}{_control(results, key)}."
            for key, words in named[:2]
        ]
        total = counted(len(results.tests), "difference")
        found.append(f"{_beyond(results)} of {total} from {base} are beyond chance.")
    return " ".join(found)


def _beyond(results: Results) -> int:
    return sum(test.holm < LEVELS[-1][0] for test in results.tests)


_HEADLINES = (
    ("mnno", "nearest neighbours that captions and pictures have in common (mNNO)"),
    ("stsb", "agreement with people on STS Benchmark (100 ρ)"),
    ("sick", "agreement with people on SICK (100 ρ)"),
    ("transfer_mean", "mean accuracy of the transfer tasks (%)"),
)


def _control(results: Results, key: str) -> str:
    """Return the best control's score as a part of a sentence; empty without controls."""
    scores = {
        name: score
        for name, one in results.described.items()
        if one.group == CONTROLS and (score := _mean(results.scenarios[name], key)) is not None
    }
    best = max(scores, key=scores.__getitem__, default=None)
    return "" if best is None else f", best control {scores[best]:.1f} ({best})"


def _headlines(results: Results) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for key, words in _HEADLINES:
        value, base = (_mean(results.scenarios[name], key) for name in (results.shown, results.baseline))
        if value is not None and len(found) < 3:
            beside = f"{results.baseline} {percent(base)}{_control(results, key)}"
            if key == "mnno":
                beside += f"; by chance {100 * _structure(results)['k'] / (_structure(results)['pictures'] - 1):.1f}"
            found.append((f"{value:.1f}", f"{words}, {results.shown}", beside))
    if results.tests:
        beside = f"from {results.baseline}, after Holm's correction"
        found.append((f"{_beyond(results)} of {len(results.tests)}", "differences are beyond chance", beside))
    return found


def _notes(results: Results, settings: GroundedSettings) -> list[tuple[str, str]]:
    features, first = results.described[results.shown].features, results.first
    skipped = first.metrics.get("skipped", {})
    related = {key: first.related(key) for key in RELATED}
    seen = [f"{LABELS[key]} ({share(one['seen_in_training'])})" for key, one in related.items() if much_seen(one)]
    undefined = [LABELS[key] for key, one in related.items() if "undefined" in one]
    sentences = results.text.get("sentences", FEW)
    trained = any(one.training.trains for one in results.described.values())
    known: list[tuple[object, str, str]] = [
        (random_weights(features), DEMONSTRATED.head, DEMONSTRATED.text),
        (
            sentences < FEW,
            "Little text",
            f"The text has {sentences:,} sentences, the published one 74 million"
            + ("; it is the sample's own stories." if results.text.get("format") == "sample" else "."),
        ),
        (results.textual.get("objective") == "none", "No text objective", "The encoder of text was not trained."),
        (not trained, "Nothing grounded", "No scenario learned from captions."),
        (
            results.baseline != settings.baseline,
            "Another baseline",
            f"The scenario {settings.baseline} did not run; differences are from {results.baseline}.",
        ),
        (skipped, "Tasks left out", "; ".join(f"{task}: {reason}" for task, reason in skipped.items()) + "."),
        (not any(related.values()), "No relatedness", "Neither STS Benchmark nor SICK was judged."),
        (first.transfer_space is None, "No transfer tasks", "Table 3 is left out."),
        (seen, "Seen in training", f"A tenth or more of the sentences are training captions: {', '.join(seen)}."),
        (undefined, "No correlation", f"{', '.join(undefined)}: all pairs have the same score."),
        (
            len(results.scenarios[results.shown]) == 1,
            "One seed",
            "Intervals are over other pictures, pairs or examples; how much another seed changes is not known.",
        ),
    ]
    return [(head, text) for applies, head, text in known if applies]


def _seen(results: Results) -> list[tuple[str, str, str, str]]:
    """Return by part the pairs, the share of sentences seen in training, and the pairs without a seen sentence."""
    found = []
    for key in RELATED:
        one = results.first.related(key)
        if is_number(one.get("seen_in_training")):
            unseen = f"{one['unseen']['pairs']:,}"
            found.append((_relatedness(key), f"{one['pairs']:,}", share(one["seen_in_training"]), unseen))
    for task in TRANSFER:
        entry = results.first.metrics["spaces"][results.first.transfer_space or results.first.judged]
        one = entry.get("transfer", {}).get(task, {})
        if is_number(one.get("seen_in_training")):
            found.append((task, f"{len(results.first.right(task)):,}", share(one["seen_in_training"]), NONE))
    return found


def _relatedness(key: str) -> str:
    return f"STS-B {LABELS[key]}" if key.startswith("stsb_") else LABELS[key]


def _unseen(results: Results) -> dict[str, Any]:
    """Return Spearman's correlations over the pairs without a sentence seen in training, and over all pairs."""
    columns = [key for key in RELATED if "unseen" in results.first.related(key)]

    def cell(runs: Sequence[Run], key: str) -> Shown:
        number = over_seeds([run.related(key).get("unseen", {}).get("spearman") for run in runs])
        return Shown(NONE if number is None else percent(100 * number[0]), "", (f"all {percent(_mean(runs, key))}",))

    groups = [
        (
            group,
            [
                {
                    "kind": "ours" if name == results.shown else "",
                    "name": name,
                    "words": "",
                    "cells": [cell(results.scenarios[name], key) for key in columns],
                }
                for name in names
            ],
        )
        for group, names in in_groups(results.described)
    ]
    return {"columns": columns, "groups": groups if columns else []}


def _tests(tests: Sequence[Difference]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for test in tests:
        scale = 1.0 if test.key in ACCURACIES else 100.0
        interval = NONE
        if test.low is not None and test.high is not None:
            interval = f"{signed(scale * test.low, 1)} to {signed(scale * test.high, 1)}"
        label = _relatedness(test.key) if test.key in RELATED else LABELS.get(test.key, test.key)
        difference, mark = signed(scale * test.difference, 1), stars(test.holm)
        found.append((test.scenario, label, difference, interval, _p(test.p), _p(test.holm), mark))
    return found


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _losses(results: Results) -> dict[str, Any]:
    """Return by scenario its words, space and the last value of each part of its loss, in training and on dev."""
    parts = [part for part in LOSSES if any(part in one.loss for one in results.curves.values())]

    def last(curves: Curves | None, part: str) -> str:
        values = [] if curves is None else [table[part][-1] for table in (curves.loss, curves.dev) if table.get(part)]
        return " / ".join(f"{float(value):.3f}" for value in values) or NONE

    groups = [
        (
            group,
            [
                (
                    name,
                    results.described[name].words,
                    SPACES[results.described[name].training.judged],
                    [last(results.curves.get(name), part) for part in parts],
                )
                for name in names
            ],
        )
        for group, names in in_groups(results.described)
    ]
    return {"parts": [LOSSES[part] for part in parts], "groups": groups}


def _neighbours(results: Results) -> list[dict[str, Any]]:
    """Return each query with its nearest captions by the baseline and by the scenario of the drawings."""

    def tile(image: str, sentence: str, rank: int) -> Tile:
        return Tile(image, sentence, rank, right=False, thumbnail=results.thumbnails.get(image))

    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys((results.baseline, results.shown)):
        run = results.scenarios[name][0]
        table = run.tables["neighbours"]
        for row in table[table["space"] == run.judged].itertuples():
            query = str(row.query)
            asked = tile(results.asked[query], query, 0) if query in results.asked else None
            one = found.setdefault(query, {"query": query, "asked": asked, "lists": {}})
            near = tile(str(row.image_id), str(row.sentence), int(str(row.rank)))
            one["lists"].setdefault(name, []).append((near, f"{row.cosine:.3f}"))
    return list(found.values())


def _trends(results: Results) -> list[tuple[str, ...]]:
    """Return by scenario the correlation of gain and concreteness over subtasks, and over pairs."""

    def shown(value: float | None, low: float | None, high: float | None) -> str:
        interval = "" if low is None or high is None else f" ({signed(low, 2)} to {signed(high, 2)})"
        return NONE if value is None else f"{signed(value, 2)}{interval}"

    by_pair = {one.scenario: one for one in results.gains}
    return [
        (
            name,
            shown(*one[:3]),
            f"{one.points:,}",
            shown(*by_pair[name][1:4]) if name in by_pair else NONE,
            f"{by_pair[name].pairs:,}" if name in by_pair else NONE,
        )
        for name, one in results.trends.items()
    ]


def _gap(results: Results) -> str:
    """Return how this run differs from the published one."""
    text, features = results.text.get("sentences"), results.described[results.shown].features
    read = f"{text:,} sentences of text" if is_number(text) else "another text"
    structure = _structure(results)
    return (
        "The published encoders have 2,048 states, read 74 million sentences of 11,000 novels and the captions of COCO's "
        "118,000 pictures with features of Inception-v3, and their structure is that of 5,000 pictures. This run read "
        f"{read}; its features are {describe(features)}; its structure is that of "
        f"{counted(structure['pictures'], 'picture')}."
    )


def _misprints(results: Results) -> list[str]:
    rows = [row for rows in results.tables.values() for row in rows]
    return [
        f"{LABELS.get(key, key)} of {row.name}, {cell.value:.1f} (printed: {cell.misprinted:.1f})"
        for row in rows
        for key, cell in row.cells.items()
        if cell.misprinted is not None
    ]


def _facts(results: Results, settings: GroundedSettings) -> list[tuple[str, dict[str, str]]]:
    parameters = {name: one.training.model_dump() for name, one in results.described.items()}
    first = parameters[results.shown]
    common = {
        key: plain(value) for key, value in first.items() if all(one[key] == value for one in parameters.values())
    }
    own = {
        f"{name}.{key}": plain(value)
        for name, one in parameters.items()
        for key, value in one.items()
        if key not in common and value != type(results.described[name].training).model_fields[key].default
    }
    judged = {key: value for key, value in _structure(results).items() if key in ("pictures", "captions", "k")}
    seeds = [run.seed for run in results.scenarios[results.shown]]
    found = [
        ("Text", flat(results.text)),
        ("Encoder of text", flat(results.textual)),
        ("Scenarios, common parameters", common),
        ("Scenarios, their own parameters", own),
        ("Features", flat(results.described[results.shown].features)),
        ("Structure", flat({"split": results.first.split} | judged)),
        ("Comparison", flat(settings.model_dump() | {"baseline": results.baseline, "seeds of training": seeds})),
    ]
    return [(head, values) for head, values in found if values]
