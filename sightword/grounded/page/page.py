"""Writes the page of all scenarios: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sightword.features.tables.origin import describe, random_weights
from sightword.grounded.judging.result_tables import ACCURACIES, STRUCTURE
from sightword.grounded.judging.results import RELATED
from sightword.grounded.page import tables
from sightword.grounded.page.scenarios import CONTROLS
from sightword.grounded.page.settings import GroundedSettings
from sightword.grounded.page.tables import LABELS, SPACES, Findings
from sightword.report import html_page as html
from sightword.report.drawing import Drawing
from sightword.report.html_page import DEMONSTRATED
from sightword.report.inputs import opened
from sightword.report.number_formats import counted, is_number, much_seen, percent, plain, share, stars

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
_SEEN = (
    "Test sentences that are training captions, without regard to case and punctuation; unseen pairs have no such "
    "sentence."
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
    "Gain over {} against the concreteness of the words (ratings from 1 to 5): Spearman's ρ over the subtasks of STS,"
    " and over the pairs of STS Benchmark, where the gain is by how much the pair's rank is nearer to the human rank;"
    " each with its 95&nbsp;% interval. Pairs of STS Benchmark come from the other years' subtasks. All points: "
    "<code>plots/scenarios/subtasks.tsv</code>."
)
_TRAINING = "The number behind a part of the loss is its weight. Last values of each part: training / dev, first seed."


def render(
    findings: Findings, drawings: Sequence[tuple[str, Drawing]], settings: GroundedSettings, how_often: str = ""
) -> str:
    """Return the text of the page.

    Args:
        findings: the content.
        drawings: captions and drawings.
        settings: of the page.
        how_often: the counts of the ledger of scorings, in words.
    """
    drawn = {one.name: html.figure(one, caption) for caption, one in drawings}
    curve, gain = drawn.pop("neighbours", None), drawn.pop("gain", None)
    planes = [drawn.pop(name) for name in list(drawn) if name.startswith("plane_")]
    shown = [_structure(findings, curve, how_often), *_scores(findings)]
    if planes:
        shown.append(
            html.Section(
                "plane", "In the plane", [html.text(_PLANE, findings.first.split), html.beside(*planes)], "Plane"
            )
        )
    if near := tables.neighbours(findings):
        words = html.text(_NEIGHBOURS, findings.first.split, findings.first.split)
        articles = [html.part("nearest", one) for one in near]
        shown.append(html.Section("neighbours", "Nearest captions", [words, *articles], "Neighbours"))
    if trends := tables.trends(findings):
        parts: html.Parts = [
            html.text(_TRENDS, findings.baseline),
            html.block(gain, style="narrow") if gain else None,
            html.table(trends),
        ]
        shown.append(html.Section("concreteness", "Do concrete words gain more?", parts, "Concreteness"))
    losses = tables.losses(findings)
    parts = [html.text(_TRAINING), html.table(losses) if losses else None, html.beside(*drawn.values(), style="apart")]
    shown.append(html.Section("training", "Training", parts))
    if published := tables.published(findings):
        misprints = _misprints(findings)
        words = html.text("Misprinted means, corrected here to those of their eight accuracies: {}.", misprints)
        parts = [html.text("{}", _gap(findings)), *map(html.table, published), words if misprints else None]
        shown.append(html.Section("published", "Published numbers, not comparable", parts, "Published"))
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
        words = html.text(_TABLE_3, SPACES.get(findings.first.transfer_space or "", ""))
        found.append(html.Section("table3", "Transfer tasks", [words, html.table(transfer)], "Transfer"))
    spaces, seen, tests = tables.spaces(findings), tables.seen(findings), tables.tests(findings)
    number = len(spaces.groups)
    parts = [
        html.text(_SPACES, findings.first.split),
        html.fold(f"{number} scenarios", html.table(spaces)),
    ]
    found.append(html.Section("spaces", "Every space, and the vectors centred", parts, "Spaces"))
    if seen.rows:
        unseen = tables.unseen(findings)
        rest: html.Parts = [html.text(_SEEN), html.table(seen), html.table(unseen) if unseen else None]
        found.append(html.Section("seen", "Seen in training", rest))
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
        (findings.textual.get("objective") == "none", "No text objective", "The encoder of text was not trained."),
        (not trained, "Nothing grounded", "No scenario learned from captions."),
        (findings.baseline != settings.baseline, "Another baseline", replaced),
        (skipped, "Tasks left out", f"{skipped}."),
        (not any(related.values()), "No relatedness", "Neither STS Benchmark nor SICK was judged."),
        (first.transfer_space is None, "No transfer tasks", "Table 3 of Bordes et al. (2019) is left out."),
        (seen, "Seen in training", f"A tenth or more of the sentences are training captions: {seen}."),
        (undefined, "No correlation", f"{undefined}: all pairs have the same score."),
        (len(findings.scenarios[findings.shown]) == 1, "One seed", single),
    ]
    return [html.Note(head, words) for applies, head, words in known if applies]


def _gap(findings: Findings) -> str:
    """Return how this run differs from the published one."""
    sentences, features = findings.text.get("sentences"), findings.described[findings.shown].features
    read = f"{sentences:,} sentences of text" if is_number(sentences) else "another text"
    return (
        "The published encoders have 2,048 states, read 74 million sentences of 11,000 novels and the captions of "
        "COCO's 118,000 pictures with features of Inception-v3; their structure is that of 5,000 pictures. This run "
        f"read {read}; its features are {describe(features)}; its structure is that of "
        f"{counted(findings.structure['pictures'], 'picture')}."
    )


def _misprints(findings: Findings) -> str:
    return "; ".join(
        f"{LABELS.get(key, key)} of {row.name}, {cell.value:.1f} (printed: {cell.misprinted:.1f})"
        for rows in findings.tables.values()
        for row in rows
        for key, cell in row.cells.items()
        if cell.misprinted is not None
    )


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
