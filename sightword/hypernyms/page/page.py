"""Writes the page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sightword.evaluation.published.rows import published
from sightword.hypernyms.judging.settings import HypernymsSettings
from sightword.hypernyms.page.words import SCRIPT, STYLE, Words, section
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
ACCURACY = (("Accuracy by the hyponym's depth", "depth"), ("Accuracy on true pairs by distance", "distance"))
"""The captions and names of drawings."""

_SCORES = (
    "A pair is accepted as hyponym and hypernym if its energy is at most a threshold, which is chosen on dev. "
    "Accuracy: percent of pairs that are classified correctly, with the 95&nbsp;% interval (Wald's; near 0 and 100 "
    "Wilson's). The closure accepts a pair if it follows from the true pairs of training and dev; the frequency "
    "counts the training pairs with the same hypernym."
)
_PARTS = (
    "A direct edge of the taxonomy never follows from other pairs, so only direct edges need prediction. All other "
    "true pairs follow from others unless these are missing in training."
)
_PUBLISHED = (
    "Accuracies on WordNet's published split, which has other pairs than this run. Some of the split's false pairs are "
    "true: on 40 splits drawn in the published way, the upper bound of a classifier that is right about the taxonomy "
    "is 93.0&nbsp;±&nbsp;0.3&nbsp;%."
)
_RELEASED = "released"
"""The protocol of the published split."""


def render(
    metrics: Mapping[str, Any],
    counts: Mapping[str, Any],
    embedding: Mapping[str, Any],
    drawings: Sequence[Drawing],
    mistakes: Sequence[Mapping[str, Any]],
    words: Words,
    settings: HypernymsSettings,
    how_often: str = "",
) -> str:
    """Return the text of the page.

    Args:
        metrics: the content of ``metrics/hypernyms/evaluate.json``.
        counts: of ``taxonomy.json``.
        embedding: of ``metrics/hypernyms/train.json``.
        drawings: those named in :data:`TRAINING` and :data:`ACCURACY`.
        mistakes: rows of ``mistakes.parquet``.
        words: the concepts of the box to type a word into.
        settings: of the page.
        how_often: the count of the ledger of scorings, in words; empty without one.
    """
    energy, scores, part = embedding["energy"], metrics[settings.split], counts[settings.split]
    drawn = {one.name: one for one in drawings}
    training, accuracy = (
        [html.figure(drawn.get(name), caption) for caption, name in captions] for captions in (TRAINING, ACCURACY)
    )
    command = f"sightword audit metrics/hypernyms/evaluate.json:{settings.split}.{energy}.accuracy"
    shown: list[html.Section | None] = [
        html.Section(
            "scores",
            "Scores",
            [
                html.text(_SCORES),
                html.table(_scores(metrics, counts, energy, settings)),
                html.scorings(how_often),
                html.source(command),
            ],
        ),
        html.Section(
            "parts",
            "By type of pair",
            [
                html.text(_PARTS),
                html.table(_parts(scores, energy)),
                html.beside(*accuracy, style="apart"),
            ],
        ),
        section(words),
        html.Section("training", "Training", [html.beside(*training, style="three")]),
    ]
    if mistakes:
        listed = html.fold(f"Wrong pairs that are farthest from the threshold ({len(mistakes)})", _mistakes(mistakes))
        shown.append(html.Section("mistakes", "Mistakes", [listed]))
    if settings.published and not _beside(counts, settings):
        parts = [html.text(_PUBLISHED), html.table(Table("WordNet", ("system", "accuracy"), _apart(), style="narrow"))]
        shown.append(html.Section("published", "Published numbers, not comparable", parts, "Published"))
    data = {"Taxonomy and split": counts, "Embedding": embedding}
    shown.append(html.Section("data", "Data", [html.facts(data, "Counts and results")]))
    return html.render(
        settings.title,
        shown,
        top=html.text("{}", _story(embedding), style="story") + html.chips(*_chips(counts)),
        footer=html.made_by("hypernyms/dvc.yaml:evaluate"),
        notes=_notes(counts, part),
        headlines=_headlines(scores, energy, part),
        style=STYLE,
        script=SCRIPT,
    )


def _story(embedding: Mapping[str, Any]) -> str:
    energy = embedding["energy"].replace("_", " ")
    kind = "Order-embeddings" if energy == "order" else f"Embeddings with the energy {energy}"
    checkpoint = f"checkpoint {embedding['best_batch']:,} of {embedding['batches']:,}"
    return f"{kind} trained on {embedding['pairs']:,} pairs; {checkpoint}, chosen on dev."


def _chips(counts: Mapping[str, Any]) -> list[str]:
    return [
        *(f"{counts[name]:,} {name}" for name in ("concepts", "edges")),
        f"{counts['pairs']:,} pairs in the closure",
    ]


def _notes(counts: Mapping[str, Any], part: Mapping[str, Any]) -> list[html.Note]:
    found = []
    if part["mislabelled"]:
        words = (
            f"{part['mislabelled']:.1f} % of the false pairs are in the closure, so they are true. No classifier that "
            f"is right about the taxonomy has an accuracy above {part['ceiling']:.1f} %."
        )
        if "draws" in counts:
            drawn = counts["draws"]
            words += (
                f" Over {drawn['number']} splits drawn this way: {_spread(drawn['mislabelled'])} of the false pairs, "
                f"ceiling {_spread(drawn['ceiling'])}."
            )
        found.append(html.Note("Wrong labels", words))
    if part["in_training"]:
        found.append(html.Note("Leak", f"{part['in_training']:.1f} % of the true pairs are training pairs as well."))
    if not counts["protocol"]:
        found.append(html.Note("No published split", "Published numbers belong to other pairs."))
    return found


def _spread(of: Mapping[str, float]) -> str:
    return f"{of['mean']:.1f} ± {of['deviation']:.1f} % ({of['lowest']:.1f} to {of['highest']:.1f})"


def _headlines(scores: Mapping[str, Any], energy: str, part: Mapping[str, Any]) -> list[html.Headline]:
    own = scores[energy]
    shown, remark = tile(own["accuracy"], own["accuracy_ci95"])
    closure, ceiling = f"closure {scores['closure']['accuracy']:.1f} %", f"ceiling {part['ceiling']:.1f} %"
    found = [html.Headline(shown, "of pairs classified correctly", ", ".join(filter(None, (remark, closure, ceiling))))]
    if "direct" in own:
        shown, remark = tile(own["direct"], proportion_interval(own["direct"], own["direct_pairs"]))
        none = "the closure accepts none of them"
        found.append(html.Headline(shown, "of direct edges accepted", f"{remark}; {none}" if remark else none))
    found.append(html.Headline(f"{own['f1']:.1f}", "F1 of true pairs", f"closure {scores['closure']['f1']:.1f}"))
    return found


def _scores(metrics: Mapping[str, Any], counts: Mapping[str, Any], energy: str, settings: HypernymsSettings) -> Table:
    scores, part = metrics[settings.split], counts[settings.split]
    columns = ("system", "accuracy", "true right", "false right", "F1", "AUC", "average precision")
    rows = []
    for name in (energy, "closure", "frequency"):
        own = scores[name]
        cells = [with_interval(own["accuracy"], own["accuracy_ci95"])]
        cells += [percent(own.get(key)) for key in ("true_right", "false_right", "f1")]
        cells += [f"{own[key]:.4f}" if is_number(own.get(key)) else NONE for key in ("auc", "average_precision")]
        rows.append(Row(name.replace("_", " "), cells, "ours" if name == energy else ""))
    rows.append(Row("ceiling", [percent(scores["ceiling"]), *[NONE] * 5], "chance", "upper bound"))
    caption = f"{settings.split}: {part['true']:,} true and {part['false']:,} false pairs"
    return Table(caption, columns, [*rows, *_beside(counts, settings)])


def _beside(counts: Mapping[str, Any], settings: HypernymsSettings) -> list[Row]:
    """Return the published rows of the run's protocol; none without one."""
    protocol = counts["protocol"] if settings.published and settings.split == "test" else ""
    return [
        Row(
            row.system,
            [percent(row.scores.get(column)) for column in ("accuracy", "", "", "f1", "", "")],
            "published",
            f"{row.cited}, published",
        )
        for row in published("hypernyms")
        if row.setting == protocol
    ]


def _apart() -> list[Row]:
    """Return the published rows of the published split."""
    return [
        Row(row.system, [percent(row.scores["accuracy"])], "published", row.cited)
        for row in published("hypernyms")
        if row.setting == _RELEASED
    ]


def _parts(scores: Mapping[str, Any], energy: str) -> Table:
    own, closure = scores[energy], scores["closure"]
    rows = [
        Row(words, [percent(own.get(name)), percent(closure.get(name)), f"{own[f'{name}_pairs']:,}"])
        for name, words in PARTS.items()
        if name in own
    ]
    return Table("Percent right", ("part", energy, "closure", "pairs"), rows, style="narrow")


def _mistakes(mistakes: Sequence[Mapping[str, Any]]) -> Markup:
    rows = [
        Row(
            one["hyponym"],
            [
                Cell(one["hypernym"], [one["hypernym_gloss"]], style="prose"),
                ("true" if one["label"] else "false") + (", direct" if one["direct"] else ""),
                f"{one['energy']:.3f}",
            ],
            detail=one["hyponym_gloss"],
        )
        for one in mistakes
    ]
    columns = ("hyponym", Cell("hypernym", style="prose"), "label", "energy")
    return html.table(Table("", columns, rows, style="sortable glosses"))
