"""Writes the page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sightword.evaluation.published import published
from sightword.hypernyms.settings import HypernymsSettings
from sightword.report import html_page as html
from sightword.report.drawing import Drawing
from sightword.report.number_formats import NONE, is_number, percent, tile
from sightword.report.tables import Cell, Row, Table
from sightword.statistics.inference import proportion_interval, with_interval

PARTS = {
    "direct": "direct edges",
    "indirect": "all other true pairs",
    "inferable": "true pairs that follow from training and dev",
    "not_inferable": "true pairs that do not follow",
    "hyponym_replaced": "false pairs, hyponym replaced",
    "hypernym_replaced": "false pairs, hypernym replaced",
}
TRAINING = (("Score on dev (%)", "dev"), ("Training loss", "loss"), ("Energies", "energies"))
"""The captions and names of drawings."""

_SCORES = (
    "A pair is accepted as hyponym and hypernym if its energy is at most a threshold, which is chosen on dev. "
    "Accuracy: percent of pairs that are classified correctly, with the 95&nbsp;% interval (Wald's; near 0 and 100 "
    "Wilson's). The closure accepts a pair if it follows from the true pairs of training and dev; the frequency "
    "counts the training pairs with the same hypernym."
)
_PARTS = (
    "A direct edge of a taxonomy without redundant edges follows from no other pairs, so only direct edges need "
    "prediction. All other true pairs follow from others unless these are missing in training."
)


def render(
    metrics: Mapping[str, Any],
    counts: Mapping[str, Any],
    embedding: Mapping[str, Any],
    drawings: Sequence[Drawing],
    mistakes: Sequence[Mapping[str, Any]],
    settings: HypernymsSettings,
    how_often: str = "",
    made: html.Section | None = None,
) -> str:
    """Return the text of the page, from the files of the stages and ``mistakes.parquet``; ``how_often`` is of the
    ledger, ``made`` is the first section.
    """
    energy, scores, part = embedding["energy"], metrics["test"], counts["test"]
    drawn = {one.name: one for one in drawings}
    *curves, energies = [html.figure(drawn.get(name), caption) for caption, name in TRAINING]
    command = f"sightword audit metrics/hypernyms/evaluate.json:test.{energy}.accuracy"
    table = html.table(_scores(scores, counts, energy))
    listed = [html.beside_prose([html.text(_SCORES), html.scorings(how_often)], table), html.source(command)]
    by_type = html.beside(html.block(html.text(_PARTS), html.table(_parts(scores, energy))), energies)
    wrong = f"Wrong pairs that are farthest from the threshold ({len(mistakes)})"
    more = [
        html.fold("Training curves", html.beside(*curves)),
        html.fold(wrong, _mistakes(mistakes)) if mistakes else None,
    ]
    shown: list[html.Section | None] = [
        made,
        html.Section("scores", "Scores", listed),
        html.Section("parts", "By type of pair", [by_type]),
        html.Section("more", "More", more),
    ]
    kind = "Order-embeddings" if energy == "order" else f"Embeddings with the energy {energy.replace('_', ' ')}"
    checkpoint = f"checkpoint {embedding['best_batch']:,} of {embedding['batches']:,}, chosen on dev"
    story = html.text("{}", f"{kind} trained on {embedding['pairs']:,} pairs; {checkpoint}.", style="story")
    chips = [
        f"{counts['concepts']:,} concepts",
        f"{counts['edges']:,} edges",
        f"{counts['pairs']:,} pairs in the closure",
    ]
    return html.render(
        settings.title,
        shown,
        top=story + html.chips(*chips),
        footer=html.made_by("hypernyms/dvc.yaml:evaluate"),
        notes=_notes(counts, part),
        headlines=[*_headlines(scores, energy, part), *html.sparks(drawings)],
    )


def _notes(counts: Mapping[str, Any], part: Mapping[str, Any]) -> list[html.Note]:
    notes = []
    if part["mislabelled"]:
        words = (
            f"{part['mislabelled']:.1f} % of the false pairs are in the closure, so they are true. No classifier that "
            f"is right about the taxonomy has an accuracy above {part['ceiling']:.1f} %."
        )
        notes.append(html.Note("Wrong labels", words))
    if part["in_training"]:
        notes.append(html.Note("Leak", f"{part['in_training']:.1f} % of the true pairs are training pairs as well."))
    if not counts["protocol"]:
        notes.append(html.Note("No published split", "Published numbers belong to other pairs."))
    return notes


def _headlines(scores: Mapping[str, Any], energy: str, part: Mapping[str, Any]) -> list[html.Headline]:
    own = scores[energy]
    shown, remark = tile(own["accuracy"], own["accuracy_ci95"])
    closure, ceiling = f"closure {scores['closure']['accuracy']:.1f} %", f"ceiling {part['ceiling']:.1f} %"
    lines = [html.Headline(shown, "of pairs classified correctly", ", ".join(filter(None, (remark, closure, ceiling))))]
    if "direct" in own:
        shown, remark = tile(own["direct"], proportion_interval(own["direct"], own["direct_pairs"]))
        closure = f"closure {scores['closure']['direct']:.1f} %"
        lines.append(html.Headline(shown, "of direct edges accepted", f"{remark}; {closure}" if remark else closure))
    lines.append(html.Headline(f"{own['f1']:.1f}", "F1 of true pairs", f"closure {scores['closure']['f1']:.1f}"))
    return lines


def _scores(scores: Mapping[str, Any], counts: Mapping[str, Any], energy: str) -> Table:
    """Return the scores, with the published rows of the protocol."""
    columns = ("system", "accuracy", "true right", "false right", "F1", "AUC", "average precision")
    rows = []
    for name in (energy, "closure", "frequency"):
        own = scores[name]
        cells = [with_interval(own["accuracy"], own["accuracy_ci95"])]
        cells += [percent(own.get(key)) for key in ("true_right", "false_right", "f1")]
        cells += [f"{own[key]:.4f}" if is_number(own.get(key)) else NONE for key in ("auc", "average_precision")]
        rows.append(Row(name.replace("_", " "), cells, "ours" if name == energy else ""))
    rows.append(Row("ceiling", [percent(scores["ceiling"]), *[NONE] * 5], "chance", "upper bound"))
    for row in published("hypernyms"):
        if row.setting == counts["protocol"]:
            cells = [percent(row.scores.get(column)) for column in ("accuracy", "", "", "f1", "", "")]
            rows.append(Row(row.system, cells, "published", f"{row.cited}, published"))
    part = counts["test"]
    return Table(f"test: {part['true']:,} true and {part['false']:,} false pairs", columns, rows)


def _parts(scores: Mapping[str, Any], energy: str) -> Table:
    own, closure = scores[energy], scores["closure"]
    rows = [
        Row(words, [percent(own.get(name)), percent(closure.get(name)), f"{own[f'{name}_pairs']:,}"])
        for name, words in PARTS.items()
        if name in own
    ]
    return Table("", ("percent right", energy, "closure", "pairs"), rows)


def _mistakes(mistakes: Sequence[Mapping[str, Any]]) -> Markup:
    rows = []
    for one in mistakes:
        label = ("true" if one["label"] else "false") + (", direct" if one["direct"] else "")
        hypernym = Cell(one["hypernym"], [one["hypernym_gloss"]], style="prose")
        rows.append(Row(one["hyponym"], [hypernym, label, f"{one['energy']:.3f}"], detail=one["hyponym_gloss"]))
    columns = ("hyponym", Cell("hypernym", style="prose"), "label", "energy")
    return html.table(Table("", columns, rows, style="sortable glosses"))
