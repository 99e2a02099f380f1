"""Writes the page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sightword.entailment.data.pairs import LABELS
from sightword.entailment.settings import EntailmentSettings
from sightword.evaluation.published import published
from sightword.report import html_page as html
from sightword.report.drawing import Drawing
from sightword.report.number_formats import NONE, count, counted, p_value, percent, signed, tile
from sightword.report.tables import Cell, Row, Table, quotes
from sightword.statistics.inference import with_interval

TRAINING = (("Score on dev (%)", "dev"), ("Training loss", "loss"), ("Energies", "energies"))
"""The captions and names of drawings."""
SNLI = {
    "train": {"entailment": 183_416, "neutral": 182_764, "contradiction": 183_187},
    "test": {"entailment": 3_368, "neutral": 3_219, "contradiction": 3_237},
}
"""The labelled pairs of SNLI 1.0, on which the published scores are."""
SMALL = 100_000
"""With fewer training pairs, a run says little about a method that was published with 549,367."""
LEVEL = 0.05
"""A difference with a smaller corrected p is beyond chance."""
_DETAILS = {
    "majority": "always the more frequent answer on dev",
    "hypothesis_only": "logistic regression, does not see the premise",
    "new_words": "share of the hypothesis's words that the premise lacks",
}
_CLASSIFIER, _UNTRAINED = "_classifier", "_untrained"
Scores = Mapping[str, Mapping[str, Any]]

_SCORES = (
    "A premise counts as entailing a hypothesis if the energy of the pair is at most a threshold, which is chosen on "
    "dev for each system. Accuracy: percent of pairs that are classified correctly in two classes, entailed or not, "
    "with the 95&nbsp;% interval over premises. The columns by class have the percent of that class that is "
    "classified correctly. Exchanged: the accuracy with premise and hypothesis exchanged, at the same threshold and "
    "labels; a system that does not see the order keeps its accuracy."
)
_ENCODERS = (
    "Other encoders judge the same pairs by the energy of their similarity, beside the same network with random "
    "weights; encoders with equal networks share it, and tests compare it once. Only the threshold is chosen on "
    "labelled pairs of dev; the classifiers learn from the training pairs."
)
_UNSEEN = (
    "{}&nbsp;% of the pairs have a premise that is a training caption of {}, without regard to case and punctuation; "
    "the others are {} pairs."
)
_TESTS = (
    "Two systems judge the same pairs, so McNemar's test compares them by the pairs that only one of them classifies "
    "correctly. Pairs of one premise are alike, so they count together (after Durkalski et al. 2003). Holm's "
    "correction is over all {} comparisons."
)


def render(
    metrics: Mapping[str, Any],
    counts: Mapping[str, Any],
    training: Mapping[str, Any],
    drawings: Sequence[Drawing],
    mistakes: Sequence[Mapping[str, Any]],
    settings: EntailmentSettings,
    how_often: str = "",
    made: html.Section | None = None,
) -> str:
    """Return the text of the page, from ``evaluate.json``, ``pairs.json``, ``train.json``, the drawings of
    :data:`TRAINING` and the rows of ``mistakes.parquet``; ``how_often`` is the count of the ledger, in words;
    ``made`` is the first section.
    """
    energy, scores = str(training["energy"]), metrics["test"]
    drawn = {one.name: one for one in drawings}
    others = {name: value["energy"] for name, value in metrics.get("encoders", {}).items()}
    gaps = differences(counts)
    rows = _rows(scores, metrics["swapped"], energy, others)
    if not gaps:
        blank = [NONE] * (len(_classes(scores[energy])) + 4)
        for row in published("entailment"):
            cells = [percent(row.scores["accuracy"]), *blank]
            rows.append(Row(row.system, cells, "published", f"{row.cited}, published"))
    columns = ("system", "accuracy", *_classes(scores[energy]), "exchanged", "F1", "AUC", "average precision")
    table = html.table(Table(f"test: {counted(scores[energy]['pairs'], 'pair')}", columns, rows))
    command = f"sightword audit metrics/entailment/evaluate.json:test.{energy}.accuracy"
    shown: list[html.Section | None] = [
        made,
        html.Section("scores", "Scores", [html.text(_SCORES), html.scorings(how_often), table, html.source(command)]),
    ]
    if three := metrics.get("three_classes"):
        shown.append(html.Section("classes", "Three classes", [html.table(_three(three["systems"], energy, others))]))
    if others:
        compared = [one for name in others for one in _encoder(name, metrics, scores, energy, others)]
        head = "Does looking at pictures teach entailment?"
        shown.append(html.Section("encoders", head, [html.text(_ENCODERS), *compared], "Pictures"))
    tests = _tests(metrics["significance"], energy, others)
    wrong = f"Wrong pairs that are farthest from the threshold ({len(mistakes)})"
    more = [
        html.fold(
            "Training curves", html.beside(*(html.figure(drawn.get(name), caption) for caption, name in TRAINING))
        ),
        html.fold(wrong, html.table(_mistakes(mistakes))) if mistakes else None,
    ]
    tested = html.beside_prose([html.text(_TESTS, len(tests.rows))], html.table(tests))
    shown += [html.Section("tests", "Pairwise tests", [tested]), html.Section("more", "More", more)]
    story = (
        f"Does a premise entail a hypothesis? An encoder of both sentences, trained on {training['pairs']:,} labelled "
        f"pairs; checkpoint {training['best_batch']:,} of {training['batches']:,}, chosen on dev."
    )
    chips = [f"{count(training[name])} {name}" for name in ("parameters", "tokens") if name in training]
    return html.render(
        settings.title,
        shown,
        top=html.text("{}", story, style="story") + html.chips(f"energy {energy}", *chips),
        footer=html.made_by("entailment/dvc.yaml:evaluate"),
        notes=_notes(metrics, counts, gaps, energy, settings),
        headlines=[*_headlines(scores, energy), *html.sparks(drawings)],
    )


def differences(counts: Mapping[str, Any]) -> list[str]:
    """Return each reason why the published numbers do not belong beside a run's; empty where its pairs are SNLI's."""
    lines = []
    for name, wanted in SNLI.items():
        own = counts[name]["labels"]
        if any(own.get(label, 0) != number for label, number in wanted.items()):
            part = "training" if name == "train" else name
            pairs = f"{sum(own.values()):,} pairs ({', '.join(counts[name]['sources'])})"
            lines.append(f"{part} has {pairs}, not SNLI's {sum(wanted.values()):,}")
    return lines


def system(name: str, energy: str, others: Mapping[str, str]) -> tuple[str, str]:
    """Return the shown name of a system by its key, and a few words; ``others`` are energies of other encoders."""
    if name in _DETAILS:
        return name.replace("_", " "), _DETAILS[name]
    base = name.removesuffix(_CLASSIFIER)
    by_classifier = base != name
    encoder = base if base in others else base.removesuffix(_UNTRAINED)
    shown = f"{encoder}, random weights" if encoder != base else encoder
    if by_classifier:
        return f"{shown}, classifier", "on its vectors"
    if name == energy:
        return shown, "this run: trained on entailment"
    return shown, f"energy {others[encoder]}"


def _notes(
    metrics: Mapping[str, Any],
    counts: Mapping[str, Any],
    gaps: Sequence[str],
    energy: str,
    shown: EntailmentSettings,
) -> list[html.Note]:
    notes = []
    if shown.classifier.sides == "hypothesis" and shown.classifier.epochs:
        notes.append(html.Note("A control", "The classifiers on an encoder's vectors see the hypothesis only."))
    if gaps:
        words = f"The published numbers belong to other pairs: {'; '.join(gaps)}."
        if counts["train"]["pairs"] < SMALL:
            words += " So few training pairs test the machinery, not the method."
        notes.append(html.Note("Not the published protocol", words))
    alone, ours = (metrics["test"][name]["accuracy"] for name in ("hypothesis_only", energy))
    difference, p = _between(energy, "hypothesis_only", metrics["significance"])
    if p is not None and (difference <= 0 or p >= LEVEL):
        words = f"{energy} has {ours:.1f} %, a classifier that does not see the premise {alone:.1f} %: "
        notes.append(html.Note("No gain from the premise is shown", f"{words}a difference {_meaning(p)}."))
    if share := metrics["leak"]["premises_in_training"]:
        notes.append(html.Note("Leak", f"{share:.2f} % of the pairs have a premise that stands in training as well."))
    return notes


def _headlines(scores: Scores, energy: str) -> list[html.Headline]:
    own, alone = scores[energy], scores["hypothesis_only"]["accuracy"]
    most, fresh = scores["majority"]["accuracy"], scores["new_words"]["accuracy"]
    shown, remark = tile(own["accuracy"], own["accuracy_ci95"])
    beside = ", ".join(filter(None, (remark, f"majority {most:.1f} %", f"new words {fresh:.1f} %")))
    return [
        html.Headline(shown, "of pairs classified correctly", beside),
        html.Headline(
            f"{own['class']['entailment']['accuracy']:.1f} %", "of entailed pairs accepted", f"F1 {own['f1']:.1f}"
        ),
        html.Headline(f"{alone:.1f} %", "without the premise", "hypothesis only"),
    ]


def _accuracy(scores: Mapping[str, Any]) -> str:
    return with_interval(scores["accuracy"], scores["accuracy_ci95"])


def _classes(scores: Mapping[str, Any]) -> list[str]:
    return [name for name in LABELS if name in scores["class"]]


def _rows(scores: Scores, swapped: Scores, energy: str, others: Mapping[str, str]) -> list[Row]:
    rows = []
    for name, one in scores.items():
        shown, detail = system(name, energy, others)
        cells = [*_by_class(one), percent(swapped[name]["accuracy"]), percent(one["f1"])]
        cells += [f"{one['auc']:.4f}", f"{one['average_precision']:.4f}"]
        rows.append(Row(shown, cells, "ours" if name == energy else "chance" if name == "majority" else "", detail))
    return rows


def _by_class(scores: Mapping[str, Any]) -> list[str]:
    return [_accuracy(scores), *(percent(scores["class"][label]["accuracy"]) for label in _classes(scores))]


def _three(scores: Scores, energy: str, others: Mapping[str, str]) -> Table:
    rows = [Row(system(name, energy, others)[0], _by_class(one)) for name, one in scores.items()]
    columns = ("system", "accuracy", *_classes(scores["majority"]))
    return Table("Percent of pairs classified correctly", columns, rows)


def _encoder(
    name: str, metrics: Mapping[str, Any], scores: Scores, energy: str, others: Mapping[str, str]
) -> list[Markup]:
    """Return the scores of another encoder and its untrained network, and tests on premises it never saw."""
    unseen = metrics.get("unseen", {}).get(name, {})
    rest, tests = unseen.get("systems", {}), unseen.get("significance", {})
    systems = [name, f"{name}{_UNTRAINED}", f"{name}{_CLASSIFIER}", f"{name}{_UNTRAINED}{_CLASSIFIER}"]
    rows = []
    for key in (*systems, "new_words", "hypothesis_only", energy):
        if key in scores:
            shown, detail = system(key, energy, others)
            cells = [_accuracy(scores[key]), _accuracy(rest[key]) if key in rest else NONE]
            rows.append(Row(shown, cells, detail=detail))
    seen = html.text("The training captions of {} are not known: its folder has no captions.parquet.", name)
    if unseen:
        seen = html.text(_UNSEEN, percent(unseen["premises_seen"]), name, count(unseen["pairs"]))
    verdicts = []
    compared = [(systems[0], other) for other in (systems[1], "new_words")]
    for one, other in [*compared, *((systems[2], other) for other in (systems[3], "new_words", "hypothesis_only"))]:
        difference, p = _between(one, other, tests)
        if p is not None:
            first, second = (system(key, energy, others)[0] for key in (one, other))
            verdicts.append(f"On these: {first} against {second}, {signed(difference, 1)} points, {_meaning(p)}.")
    columns = ("system", "all pairs", "premise not a training caption")
    return [html.table(Table(f"{name}: accuracy", columns, rows)), seen, html.lines(verdicts)]


def _between(one: str, other: str, tests: Mapping[str, Any]) -> tuple[float, float | None]:
    """Return the difference of two systems in percent, and the corrected p; None where they were not compared."""
    for key, sign in ((f"{one}_vs_{other}", 1), (f"{other}_vs_{one}", -1)):
        if key in tests:
            return sign * tests[key]["difference"], tests[key]["holm"]
    return 0.0, None


def _meaning(p: float) -> str:
    return f"{'beyond' if p < LEVEL else 'within'} chance (p {p_value(p).replace('<', 'below ')})"


def _tests(tests: Mapping[str, Mapping[str, Any]], energy: str, others: Mapping[str, str]) -> Table:
    rows = []
    for key, one in tests.items():
        first, second = (system(name, energy, others)[0] for name in key.split("_vs_"))
        better = "" if one["holm"] >= LEVEL else first if one["difference"] > 0 else second
        counts = (signed(one["difference"], 1), count(one["only_first"]), count(one["only_second"]))
        ends = Cell(second, style="prose"), Cell(better, style="prose")
        rows.append(Row(first, [ends[0], *counts, p_value(one["holm"]), ends[1]]))
    ends = Cell("second", style="prose"), Cell("better", style="prose")
    columns = ("first", ends[0], "difference", "only first right", "only second right", "p, corrected", ends[1])
    return Table("", columns, rows, style="sortable tests")


def _mistakes(mistakes: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for one in mistakes:
        judged = "entailed" if one["accepted"] else "not entailed"
        pair = quotes(one["premise"], one["hypothesis"])
        rows.append(Row(pair, [one["label"], judged, f"{one['energy']:.3f}"]))
    columns = ("premise and hypothesis", "label", "judged", "energy")
    return Table(f"{len(mistakes)} pairs", columns, rows, style="worst sortable")
