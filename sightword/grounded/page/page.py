"""Writes the page of all scenarios: one HTML file that needs no network and no other file; its drawings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from sightword.features.tables.origin import random_weights
from sightword.grounded.judging.comparing import ACCURACIES, STRUCTURE, Scenarios
from sightword.grounded.judging.results import RELATED, Results
from sightword.grounded.page import tables
from sightword.grounded.page.settings import GroundedSettings
from sightword.grounded.page.tables import CONTROLS, LABELS, LOSSES, SPACES, Findings
from sightword.report import html_page as html
from sightword.report.drawing import BLUE, GREEN, GREY, LINES, ORANGE, WIDTH, Drawing, drawing_style, plain_axes
from sightword.report.html_page import DEMONSTRATED
from sightword.report.inputs import Columns, numbers, opened, read_tsv
from sightword.report.number_formats import much_seen, percent, plain, share, stars

COLOURS = (BLUE, ORANGE, GREEN, GREY)
MARKERS = "os^Dv"
_LOOKS = tuple(itertools.product(("-", "--", ":"), zip(COLOURS[:3], MARKERS, strict=False)))
CHANCE = "chance"
CURVE = f"mNNO by the number of neighbours K, of at most {LINES} scenarios"
XY = tuple[Sequence[float], Sequence[float]]
FEW = 1_000_000
"""With fewer sentences of text, a run says little about a method that was published with 74 million."""
HEADLINES = {
    "mnno": "common neighbours of captions and pictures (mNNO)",
    "stsb": "agreement with people on STS Benchmark (100 ρ)",
    "sick": "agreement with people on SICK (100 ρ)",
    "transfer_mean": "mean accuracy of the transfer tasks (%)",
}


_TABLE_1 = (
    "All numbers are times 100, each scenario in the space in which it is judged. mNNO: of the {} nearest captions of"
    " a caption, the share whose pictures are also among the {} nearest pictures of its picture. ρ vis: correlation "
    "of the cosines of captions and of pictures. C inter and C intra: mean cosine of captions of different pictures, "
    "and of one picture. STS-B and SICK: Spearman's correlation of the cosine with human scores."
)
_SMALL = (
    "Small numbers: 95&nbsp;% interval{}. Stars: the difference from {} ({}), up or down, is beyond chance after "
    "Holm's correction over all tests, *&nbsp;p&nbsp;&lt;&nbsp;0.05, **&nbsp;0.01, ***&nbsp;0.001."
)
_TABLE_3 = (
    "Accuracy in percent of a logistic regression on the vectors ({}), with its 95&nbsp;% interval over first "
    "sentences. Stars as above, by McNemar's test."
)
_SPACES = (
    "An encoder has its own vector s and maybe maps of s: the grounded space g(s), and f(s) among the vectors of "
    "pictures. Vectors that share one direction have a high C inter. Centred: the mean vector of the captions of {} "
    "is subtracted first, so that a gain by centring alone shows."
)
_TESTS = (
    "Each scenario against {}, on the same pictures, pairs or examples: bootstrap over pictures (structure) and over "
    "pairs (relatedness), McNemar's test (transfer tasks, first seed; examples with one first sentence count "
    "together). Holm's correction is over all {} tests."
)
_PLANE = (
    "Captions of {} with exactly one of a few words, by t-SNE of their vectors in the judged space. Only nearness "
    "counts, not place or size."
)
_NEIGHBOURS = (
    "Q: a sentence; N: its nearest captions on {}, with their pictures and the cosine. A sentence without a picture "
    "is no caption of {}."
)
_TRENDS = (
    "Gain over {} against the concreteness of the words (ratings from 1 to 5): Spearman's ρ over the pairs of STS "
    "Benchmark, where the gain is by how much the pair's rank is nearer to the human rank, with its 95&nbsp;% interval."
)
_TRAINING = "The number behind a part of the loss is its weight."


class Curves(NamedTuple):
    """The tables of one training run, by the name of a column."""

    loss: Columns
    dev: Columns
    norms: Columns


def read_curves(folder: Path) -> Curves:
    """Read the tables of a training run; FileFormatError if one is damaged."""
    return Curves(*(read_tsv(folder / f"{name}.tsv") for name in Curves._fields))


def lines(
    name: str, series: Mapping[str, XY], labels: tuple[str, str], title: str, *, dots: bool = True, log: str = ""
) -> Drawing:
    """Draw the first :data:`LINES` lines over x, grey for chance; ``log`` names the logarithmic axes, such as
    ``xy``.
    """
    own = {label: xy for label, xy in series.items() if label != CHANCE}
    with drawing_style(name):
        figure, axes = plain_axes(2.6 + 0.2 * -(-min(len(own), LINES) // 3), *labels)
        for (label, (x, y)), (dashes, (colour, marker)) in zip(own.items(), _LOOKS, strict=False):
            shown = marker if dots or len(x) == 1 else None
            axes.plot(x, y, color=colour, marker=shown, markersize=4, linestyle=dashes, label=label)
        if CHANCE in series:
            axes.plot(*series[CHANCE], color=GREY, linestyle="-.", linewidth=1.2, label=CHANCE)
        if "x" in log:
            axes.set_xscale("log")
            places = sorted({place for x, _ in series.values() for place in x})
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.xaxis.set_minor_formatter(NullFormatter())
        if "y" in log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        figure.legend(loc="outside upper left", ncols=3, handlelength=2.2, fontsize=8)
        return Drawing(name, title, figure)


def neighbours(scenarios: Scenarios) -> Drawing | None:
    """Draw the mNNO in the judged spaces against the number of neighbours, with chance, K / (N - 1)."""
    series: dict[str, XY] = {}
    for name, runs in scenarios.items():
        parts = [run.metrics["spaces"][run.judged]["structure"][run.split] for run in runs]
        ks = [int(k) for k in parts[0]["curve"]]
        series[name] = ks, [100.0 * float(np.mean([part["curve"][str(k)] for part in parts])) for k in ks]
        series[CHANCE] = ks, [100.0 * k / (parts[0]["pictures"] - 1) for k in ks]
    if not series or not series[CHANCE][0]:
        return None
    return lines("neighbours", series, ("neighbours K", "mNNO (%)"), "mNNO by the number of neighbours.", log="x")


def plane(run: Results) -> Drawing | None:
    """Draw the points of the t-SNE in the judged space, by group; None without points."""
    table = run.tables["points"]
    rows = table[table["space"] == run.judged]
    if rows.empty:
        return None
    name, groups = f"plane_{run.scenario}", list(dict.fromkeys(rows["group"]))
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
        axes = figure.add_subplot(xticks=[], yticks=[])
        for place, group in enumerate(groups):
            own, look = rows[rows["group"] == group], (COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)])
            axes.plot(own["x"], own["y"], look[1], color=look[0], markersize=3.6, alpha=0.8, label=group)
        figure.legend(loc="outside upper center", ncols=min(4, len(groups)), fontsize=8)
        return Drawing(name, f"Captions of {run.scenario} with the words {', '.join(groups)}, by t-SNE.", figure)


def draw(findings: Findings, curves: Path, text: Path) -> list[tuple[str, Drawing]]:
    """Draw the page's drawings, each with its caption: of the run whose ``curves`` are named, and of the ``text``."""
    both = dict.fromkeys((findings.baseline, findings.shown))
    first = dict.fromkeys((*both, *findings.scenarios))  # a drawing has room for a few lines
    every = [
        (CURVE, neighbours({name: findings.scenarios[name] for name in first})),
        *((f"Captions by t-SNE, {name}", plane(findings.scenarios[name][0])) for name in both),
        *training(findings.shown, read_curves(curves), text),
    ]
    return [(caption, one) for caption, one in every if one is not None]


def training(name: str, curves: Curves, text: Path) -> list[tuple[str, Drawing]]:
    """Draw the parts of a run's loss, the gradients' norms, and the loss of the text's encoder (``text``)."""
    found = []
    for part in [column for column in curves.loss if column != "batch"]:
        series = {"training": _column(curves.loss, part), "dev": _column(curves.dev, part)}
        series = {label: xy for label, xy in series.items() if xy[0]}
        if series:
            head = f"Loss of {name}: {LOSSES.get(part, part)}"
            found.append((head, lines(f"loss_{part}", series, ("batch", "loss"), f"{head}.", dots=False)))
    sides = {"text": "text", "captions and pictures": "grounded"}
    norms = {side: _column(curves.norms, column) for side, column in sides.items()}
    norms = {side: (x, y) for side, (x, y) in norms.items() if any(value > 0 for value in y)}
    if norms:
        head = f"Norm of the gradient of {name}, by side"
        found.append((head, lines("norms", norms, ("batch", "norm"), f"{head}.", dots=False, log="y")))
    own = {"training": _column(read_tsv(text / "loss.tsv"), "loss")}
    own["held out"] = _column(read_tsv(text / "held_out.tsv"), "loss")
    if own := {label: xy for label, xy in own.items() if xy[0]}:
        head = "Loss of the encoder of text, before any picture"
        found.append((head, lines("text", own, ("batch", "loss"), f"{head}.", dots=False)))
    return found


def _column(columns: Columns, name: str) -> XY:
    """Return batches and values; empty without the column. A value that is undefined has no point."""
    if name not in columns:
        return [], []
    points = zip(numbers(columns, "batch", where=name), numbers(columns, name, where=name, blanks=True), strict=True)
    known = [(batch, value) for batch, value in points if not math.isnan(value)]
    return [batch for batch, _ in known], [value for _, value in known]


def render(
    findings: Findings, drawings: Sequence[tuple[str, Drawing]], settings: GroundedSettings, how_often: str = ""
) -> str:
    """Return the text of the page, with drawings and their captions, and the counts of the ledger in words."""
    drawn = {one.name: html.figure(one, caption) for caption, one in drawings}
    curve = drawn.pop("neighbours", None)
    planes = [drawn.pop(name) for name in list(drawn) if name.startswith("plane_")]
    shown, split = [_structure(findings, curve, how_often), *_scores(findings)], findings.first.split
    if planes:
        shown.append(html.Section("plane", "In the plane", [html.text(_PLANE, split), html.beside(*planes)], "Plane"))
    if near := tables.neighbours(findings):
        articles = [html.part("nearest", one) for one in near]
        parts: html.Parts = [html.text(_NEIGHBOURS, split, split), *articles]
        shown.append(html.Section("neighbours", "Nearest captions", parts, "Neighbours"))
    if trends := tables.trends(findings):
        parts = [html.text(_TRENDS, findings.baseline), html.table(trends)]
        shown.append(html.Section("concreteness", "Do concrete words gain more?", parts, "Concreteness"))
    parts = [html.text(_TRAINING), html.beside(*drawn.values(), style="apart")]
    shown.append(html.Section("training", "Training", parts))
    shown.append(html.Section("data", "Data", [html.facts(_facts(findings, settings))]))
    return html.render(
        settings.title,
        shown,
        top=html.text("{}", _story(findings), style="story"),
        footer=html.made_by("grounded/dvc.yaml:report"),
        notes=_notes(findings, settings),
        headlines=_headlines(findings),
    )


def _structure(findings: Findings, curve: Markup | None, how_often: str) -> html.Section:
    structure, base, seeds = findings.structure, findings.baseline, len(findings.scenarios[findings.shown])
    over = f" of the mean of {seeds} seeds, and the standard deviation over seeds" if seeds > 1 else ""
    caption = f"{findings.first.split}: {structure['pictures']:,} pictures, {structure['captions']:,} captions"
    scores = tables.scores(findings, "structure", STRUCTURE, caption)
    parts = [
        html.text(_TABLE_1, structure["k"], structure["k"]),
        html.text(_SMALL, over, base, findings.described[base].words),
        html.table(scores) if scores else None,
        html.scorings(how_often),
        html.source(f"sightword audit metrics/grounded/summary.json:{findings.shown}.mnno"),
        html.block(curve, style="narrow") if curve else None,
    ]
    return html.Section("table1", "Structure and relatedness", parts, "Structure")


def _scores(findings: Findings) -> list[html.Section]:
    """Return the sections of transfer tasks, of all spaces, of sentences seen in training, and of tests."""
    found = []
    if transfer := tables.scores(findings, "transfer", ACCURACIES, "Transfer tasks of SentEval"):
        words = html.text(_TABLE_3, SPACES["sentence"])
        found.append(html.Section("table3", "Transfer tasks", [words, html.table(transfer)], "Transfer"))
    spaces, tests = tables.spaces(findings), tables.tests(findings)
    number = len(spaces.groups)
    parts = [
        html.text(_SPACES, findings.first.split),
        html.fold(f"{number} scenarios", html.table(spaces)),
    ]
    found.append(html.Section("spaces", "Every space, and the vectors centred", parts, "Spaces"))
    if number := len(tests.rows):
        folded = html.fold(f"{number} tests", html.table(tests))
        found.append(html.Section("tests", "Pairwise tests", [html.text(_TESTS, findings.baseline, number), folded]))
    return found


def _story(findings: Findings) -> str:
    sentences = findings.text.get("sentences")
    captions = findings.text.get("captions", {}).get("train", {}).get("captions")
    if not (sentences and captions):
        return ""
    return (
        f"An encoder learned from {sentences:,} sentences of text. Then it read {captions:,} captions with their "
        "pictures: captions of one picture should lie together, and captions of alike pictures near each other."
    )


def _verdict(findings: Findings, key: str) -> Markup:
    """Return whether a difference from the baseline is beyond chance, as a mark; empty without a test."""
    found = [test for test in findings.tests if (test.scenario, test.key) == (findings.shown, key)]
    words = f"{'beyond' if stars(found[0].holm) else 'within'} chance" if found else ""
    return html.markup('<span class="verdict">{}</span>', words) if words else Markup("")


def _control(findings: Findings, key: str) -> str:
    """Return the best control's score as a part of a sentence; empty without controls."""
    scores = {
        name: score
        for name, one in findings.described.items()
        if one.group == CONTROLS and (score := findings.mean(name, key)) is not None
    }
    best = max(scores, key=scores.__getitem__, default=None)
    return "" if best is None else f", best control {scores[best]:.1f} ({best})"


def _headlines(findings: Findings) -> list[html.Headline]:
    found: list[html.Headline] = []
    for key, words in HEADLINES.items():
        value, base = (findings.mean(name, key) for name in (findings.shown, findings.baseline))
        if value is not None and len(found) < 3:
            beside = f"{findings.baseline} {percent(base)}{_control(findings, key)}"
            if key == "mnno":
                beside += f"; by chance {100 * findings.structure['k'] / (findings.structure['pictures'] - 1):.1f}"
            found.append(html.Headline(f"{value:.1f}", f"{words}, {findings.shown}", beside, _verdict(findings, key)))
    if findings.tests:
        beside = f"from {findings.baseline}, after Holm's correction"
        found.append(
            html.Headline(f"{findings.beyond} of {len(findings.tests)}", "differences are beyond chance", beside)
        )
    return found


def _notes(findings: Findings, settings: GroundedSettings) -> list[html.Note]:
    first = findings.first
    skipped = "; ".join(f"{task}: {reason}" for task, reason in first.metrics.get("skipped", {}).items())
    related = {LABELS[key]: first.related(key) for key in RELATED}
    seen = ", ".join(f"{name} ({share(one['seen_in_training'])})" for name, one in related.items() if much_seen(one))
    undefined = ", ".join(name for name, one in related.items() if "undefined" in one)
    sentences = findings.text.get("sentences", FEW)
    own = " of the sample's own stories" if findings.text.get("format") == "sample" else ""
    trained = any(one.training.learns_captions for one in findings.described.values())
    replaced = f"The scenario {settings.baseline} did not run; differences are from {findings.baseline}."
    single = "Intervals are over other pictures, pairs or examples; how much another seed changes is not known."
    known: list[tuple[object, str, str]] = [
        (random_weights(findings.described[findings.shown].features), DEMONSTRATED.head, DEMONSTRATED.text),
        (sentences < FEW, "Little text", f"The text has {sentences:,} sentences{own}, the published one 74 million."),
        (not trained, "Nothing grounded", "No scenario learned from captions."),
        (findings.baseline != settings.baseline, "Another baseline", replaced),
        (skipped, "Tasks left out", f"{skipped}."),
        (not any(related.values()), "No relatedness", "Neither STS Benchmark nor SICK was judged."),
        (not first.transfer, "No transfer tasks", "Table 3 of Bordes et al. (2019) is left out."),
        (seen, "Seen in training", f"A tenth or more of the sentences are training captions: {seen}."),
        (undefined, "No correlation", f"{undefined}: all pairs have the same score."),
        (len(findings.scenarios[findings.shown]) == 1, "One seed", single),
    ]
    return [html.Note(head, words) for applies, head, words in known if applies]


def _facts(findings: Findings, settings: GroundedSettings) -> dict[str, Mapping[str, Any]]:
    parameters = {name: one.training.model_dump() for name, one in findings.described.items()}
    shown = findings.described[findings.shown]
    common = {key: value for key, value in parameters[findings.shown].items()
              if all(one[key] == value for one in parameters.values())}  # fmt: skip
    fields = type(shown.training).model_fields
    own = {
        name: ", ".join(
            f"{key} {plain(value)}" for key, value in one.items() if key not in common and value != fields[key].default
        )
        for name, one in parameters.items()
    }
    structure = {key: findings.structure[key] for key in ("pictures", "captions", "k")}
    seeds = plain([run.seed for run in findings.scenarios[findings.shown]])
    return {
        "Text": findings.text,
        "Encoder of text": findings.textual,
        "Scenarios, common parameters": common,
        "Scenarios, their own parameters": own,
        "Features": opened(shown.features),
        "Structure": {"split": findings.first.split} | structure,
        "Comparison": settings.model_dump() | {"baseline": findings.baseline, "seeds of training": seeds},
    }
