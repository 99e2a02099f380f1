"""Writes the page of all scenarios: one HTML file that needs no network and no other file; its drawings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from sightword.features.tables.origin import random_weights
from sightword.grounded import tables
from sightword.grounded.comparing import ACCURACIES, RELATED, STRUCTURE
from sightword.grounded.judging.settings import GroundedSettings
from sightword.grounded.tables import CONTROLS, LABELS, LOSSES, SPACES, Findings
from sightword.report import html_page as html
from sightword.report.drawing import BLUE, ORANGE, Drawing, drawing_style, plain_axes
from sightword.report.html_page import DEMONSTRATED
from sightword.report.inputs import Columns, numbers, read_tsv
from sightword.report.number_formats import much_seen, percent, share, stars

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
_NEIGHBOURS = "Sentences, each with its nearest captions on {}, by the cosine in the judged space."
_TRENDS = (
    "Gain over {} against the concreteness of the words (ratings from 1 to 5): Spearman's ρ over the pairs of STS "
    "Benchmark, where the gain is by how much the pair's rank is nearer to the human rank, with its 95&nbsp;% interval."
)
_TRAINING = "The number behind a part of the loss is its weight."


def lines(name: str, series: Mapping[str, XY], label: str, title: str) -> Drawing:
    """Draw lines over batches."""
    with drawing_style(name):
        figure, axes = plain_axes(2.8, "batch", label)
        for (words, (x, y)), colour in zip(series.items(), (BLUE, ORANGE), strict=False):
            axes.plot(x, y, color=colour, marker="o" if len(x) == 1 else None, markersize=4, label=words)
        figure.legend(loc="outside upper left", ncols=3, handlelength=2.2, fontsize=8)
        curve = next(iter(series.values()))[1]
        return Drawing(name, title, figure, (title.rstrip("."), curve) if name == "text" else None)


def draw(findings: Findings, curves: Path, text: Path) -> list[tuple[str, Drawing]]:
    """Draw the parts of a run's loss, and the loss of the text's encoder, each with its caption.

    ``curves`` has the tables of the run of the drawings, and ``text`` those of the encoder of text.
    """
    name, drawn = findings.shown, []
    loss, dev = (read_tsv(curves / f"{table}.tsv") for table in ("loss", "dev"))
    for part in [column for column in loss if column != "batch"]:
        series = _known({"training": _column(loss, part), "dev": _column(dev, part)})
        if series:
            head = f"Loss of {name}: {LOSSES.get(part, part)}"
            drawn.append((head, lines(f"loss_{part}", series, "loss", f"{head}.")))
    of_text = {"training": read_tsv(text / "loss.tsv"), "held out": read_tsv(text / "held_out.tsv")}
    if series := _known({label: _column(table, "loss") for label, table in of_text.items()}):
        head = "Loss of the encoder of text, before any picture"
        drawn.append((head, lines("text", series, "loss", f"{head}.")))
    return drawn


def _known(series: Mapping[str, XY]) -> dict[str, XY]:
    return {label: xy for label, xy in series.items() if xy[0]}


def _column(columns: Columns, name: str) -> XY:
    """Return batches and values; empty without the column. A value that is undefined has no point."""
    if name not in columns:
        return [], []
    points = zip(numbers(columns, "batch", where=name), numbers(columns, name, where=name, blanks=True), strict=True)
    known = [(batch, value) for batch, value in points if not math.isnan(value)]
    return [batch for batch, _ in known], [value for _, value in known]


def render(
    findings: Findings,
    drawings: Sequence[tuple[str, Drawing]],
    settings: GroundedSettings,
    how_often: str = "",
    made: html.Section | None = None,
) -> str:
    """Return the text of the page, with drawings and their captions, the counts of the ledger in words, and the first
    section.
    """
    shown = [made, _structure(findings, how_often), *_scores(findings)]
    if near := tables.neighbours(findings):
        parts: html.Parts = [html.text(_NEIGHBOURS, findings.first.split), html.table(near)]
        shown.append(html.Section("neighbours", "Nearest captions", parts, "Neighbours"))
    if trends := tables.trends(findings):
        parts = [html.text(_TRENDS, findings.baseline), html.table(trends)]
        shown.append(html.Section("concreteness", "Do concrete words gain more?", parts, "Concreteness"))
    curves = html.beside(*(html.figure(one, caption) for caption, one in drawings), style="apart")
    folded = html.fold(f"Curves ({len(drawings)})", html.text(_TRAINING), curves)
    shown.append(html.Section("training", "Training", [folded]))
    return html.render(
        settings.title,
        shown,
        top=Markup(""),
        footer=html.made_by("grounded/dvc.yaml:report"),
        notes=_notes(findings, settings),
        headlines=[*_headlines(findings), *html.sparks(one for _, one in drawings)],
    )


def _structure(findings: Findings, how_often: str) -> html.Section:
    structure, base, seeds = findings.structure, findings.baseline, len(findings.scenarios[findings.shown])
    over = f" of the mean of {seeds} seeds, and the standard deviation over seeds" if seeds > 1 else ""
    caption = f"{findings.first.split}: {structure['pictures']:,} pictures, {structure['captions']:,} captions"
    scores = tables.scores(findings, "structure", STRUCTURE, caption)
    parts = [
        html.text(_TABLE_1, structure["k"], structure["k"]),
        html.text(_SMALL, over, base, findings.described[base].words),
        html.scorings(how_often),
        html.table(scores) if scores else None,
        html.source(f"sightword audit metrics/grounded/summary.json:{findings.shown}.mnno"),
    ]
    return html.Section("table1", "Structure and relatedness", parts, "Structure")


def _scores(findings: Findings) -> list[html.Section]:
    """Return the sections of transfer tasks, of all spaces, of sentences seen in training, and of tests."""
    sections = []
    if transfer := tables.scores(findings, "transfer", ACCURACIES, "Transfer tasks of SentEval"):
        words = html.text(_TABLE_3, SPACES["sentence"])
        sections.append(html.Section("table3", "Transfer tasks", [words, html.table(transfer)], "Transfer"))
    spaces, tests = tables.spaces(findings), tables.tests(findings)
    number = len(spaces.groups)
    parts = [html.text(_SPACES, findings.first.split), html.fold(f"{number} scenarios", html.table(spaces))]
    sections.append(html.Section("spaces", "Every space, and the vectors centred", parts, "Spaces"))
    if number := len(tests.rows):
        folded = html.fold(f"{number} tests", html.table(tests))
        sections.append(html.Section("tests", "Pairwise tests", [html.text(_TESTS, findings.baseline, number), folded]))
    return sections


def _verdict(findings: Findings, key: str) -> Markup:
    """Return whether a difference from the baseline is beyond chance, as a mark; empty without a test."""
    tests = [test for test in findings.tests if (test.scenario, test.key) == (findings.shown, key)]
    words = f"{'beyond' if stars(tests[0].holm) else 'within'} chance" if tests else ""
    return html.markup('<span class="verdict">{}</span>', words) if words else Markup("")


def _control(findings: Findings, key: str) -> str:
    """Return the best control's score as a part of a sentence; empty without controls."""
    controls = [name for name, one in findings.described.items() if one.group == CONTROLS]
    scores = [(score, name) for name in controls if (score := findings.mean(name, key)) is not None]
    return f", best control {max(scores)[0]:.1f} ({max(scores)[1]})" if scores else ""


def _headlines(findings: Findings) -> list[html.Headline]:
    heads: list[html.Headline] = []
    for key, words in HEADLINES.items():
        value, base = (findings.mean(name, key) for name in (findings.shown, findings.baseline))
        if value is not None and len(heads) < 3:
            beside = f"{findings.baseline} {percent(base)}{_control(findings, key)}"
            if key == "mnno":
                beside += f"; by chance {100 * findings.structure['k'] / (findings.structure['pictures'] - 1):.1f}"
            heads.append(html.Headline(f"{value:.1f}", f"{words}, {findings.shown}", beside, _verdict(findings, key)))
    if findings.tests:
        beside = f"from {findings.baseline}, after Holm's correction"
        beyond = sum(bool(stars(test.holm)) for test in findings.tests)
        heads.append(html.Headline(f"{beyond} of {len(findings.tests)}", "differences are beyond chance", beside))
    return heads


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
