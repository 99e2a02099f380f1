"""Writes the page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sightword.compute import devices
from sightword.evaluation.published import published
from sightword.hypernyms.data.pairs import ConceptPairs, reachable
from sightword.hypernyms.data.taxonomy import Taxonomy
from sightword.hypernyms.judging.settings import HypernymsSettings
from sightword.hypernyms.training.concepts import Concepts
from sightword.report import html_page as html
from sightword.report.drawing import BLUE, WIDTH, Drawing, drawing_style
from sightword.report.number_formats import FEW, NONE, is_number, percent, tile
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
MOST, TOP = 500, 5
"""The most concepts that can be looked up in a page, and the hypernyms of each."""
SCRIPT, STYLE = (resources.files(__package__).joinpath(f"words.{kind}").read_text("utf-8") for kind in ("js", "css"))
"""Additions to the script and the style of all pages, for looking words up."""

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
_WORDS = (
    "The {} nearest hypernyms by the embedding, for {} concepts that have a true pair in this split. A hypernym is "
    "accepted up to the energy {}, which was chosen on dev."
)
_ANY = "All {} concepts, in Python: <code>sightword.Concepts.load('models/hypernyms/concepts').hypernyms('{}')</code>"


class Known(NamedTuple):
    """A concept with its nearest hypernyms."""

    name: str
    words: str
    """Separated by a comma and a space."""
    above: list[tuple[str, float, bool]]
    """The hypernym, the energy, and whether the hypernym is one in the taxonomy; the nearest first."""


class Words(NamedTuple):
    """The concepts that can be looked up in the page."""

    known: list[Known]
    threshold: float
    concepts: int
    """The number of all concepts."""


@devices.threads(1)  # as for all energies: threads change the last bits
def look_up(concepts: Concepts, taxonomy: Taxonomy, pairs: ConceptPairs) -> Words:
    """Return the nearest hypernyms of hyponyms of true pairs, evenly drawn in the order of the concepts."""
    ids = np.unique(pairs.hyponyms[pairs.labels])
    chosen = ids[np.unique(np.linspace(0, len(ids) - 1, min(MOST, len(ids))).astype(int))]
    place_of, parents = taxonomy.id_of(), taxonomy.parents
    known = []
    for concept in chosen.tolist():
        name, true = taxonomy.names[concept], reachable(parents, concept)
        above = [(other, energy, place_of[other] in true) for other, energy in concepts.hypernyms(name, TOP)]
        known.append(Known(name, taxonomy.words[concept], above))
    return Words(known, concepts.threshold, len(taxonomy.names))


def accuracies(name: str, rows: Sequence[tuple[int, float, int]], xlabel: str, title: str) -> Drawing:
    """Draw (value, accuracy, pairs) rows with enough pairs as points."""
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        axes = figure.add_subplot()
        shown = [row for row in rows if row[2] >= FEW]
        axes.plot([row[0] for row in shown], [row[1] for row in shown], "o-", color=BLUE)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(xlabel)
        axes.set_ylabel("accuracy (%)")
        return Drawing(name, title, figure)


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
    """Return the text of the page, from the files of the stages and ``mistakes.parquet``; ``how_often`` is of the
    ledger.
    """
    energy, scores, part = embedding["energy"], metrics[settings.split], counts[settings.split]
    drawn = {one.name: one for one in drawings}
    training, accuracy = (
        [html.figure(drawn.get(name), caption) for caption, name in captions] for captions in (TRAINING, ACCURACY)
    )
    command = f"sightword audit metrics/hypernyms/evaluate.json:{settings.split}.{energy}.accuracy"
    table = html.table(_scores(metrics, counts, energy, settings))
    listed = [html.text(_SCORES), table, html.scorings(how_often), html.source(command)]
    by_type = [html.text(_PARTS), html.table(_parts(scores, energy)), html.beside(*accuracy, style="apart")]
    shown: list[html.Section | None] = [
        html.Section("scores", "Scores", listed),
        html.Section("parts", "By type of pair", by_type),
        section(words),
        html.Section("training", "Training", [html.beside(*training, style="three")]),
    ]
    if mistakes:
        wrong = html.fold(f"Wrong pairs that are farthest from the threshold ({len(mistakes)})", _mistakes(mistakes))
        shown.append(html.Section("mistakes", "Mistakes", [wrong]))
    data = {"Taxonomy and split": counts, "Embedding": embedding}
    shown.append(html.Section("data", "Data", [html.facts(data, "Counts and results")]))
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
        headlines=_headlines(scores, energy, part),
        style=STYLE,
        script=SCRIPT,
    )


def section(words: Words) -> html.Section | None:
    """Return the section in which words are looked up; without a script it has one concept. None without concepts."""
    if not words.known:
        return None
    shown = words.known[len(words.known) // 2]
    rows = [[one.name, one.words, [_cells(*above, words.threshold) for above in one.above]] for one in words.known]
    data = json.dumps(rows, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    columns, nearest = ("hypernym", "energy", "accepted", "in the taxonomy"), rows[len(rows) // 2][2]
    caption = f"{shown.name} ({shown.words})"
    table = html.table(Table(caption, columns, [Row(name, cells) for name, *cells in nearest], style="narrow"))
    box = Markup('<div class="lookup"><script type="application/json">{}</script><div class="found">{}</div></div>')
    intro = html.text(_WORDS, TOP, f"{len(rows):,}", f"{words.threshold:.3f}")
    command = html.text(_ANY, f"{words.concepts:,}", shown.name)
    parts = [intro, box.format(Markup(data), table), command]  # noqa: S704 - no < in it
    return html.Section("words", "Look a word up", parts, "Words")


def _cells(name: str, energy: float, right: bool, threshold: float) -> list[str]:
    return [name, f"{energy:.3f}", *("yes" if one else "no" for one in (energy <= threshold, right))]


def _notes(counts: Mapping[str, Any], part: Mapping[str, Any]) -> list[html.Note]:
    found = []
    if part["mislabelled"]:
        words = (
            f"{part['mislabelled']:.1f} % of the false pairs are in the closure, so they are true. No classifier that "
            f"is right about the taxonomy has an accuracy above {part['ceiling']:.1f} %."
        )
        if drawn := counts.get("draws"):
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
    """Return the scores of the split, with the published rows of its protocol."""
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
    protocol = counts["protocol"] if settings.split == "test" else ""
    for row in published("hypernyms"):
        if row.setting == protocol:
            cells = [percent(row.scores.get(column)) for column in ("accuracy", "", "", "f1", "", "")]
            rows.append(Row(row.system, cells, "published", f"{row.cited}, published"))
    return Table(f"{settings.split}: {part['true']:,} true and {part['false']:,} false pairs", columns, rows)


def _parts(scores: Mapping[str, Any], energy: str) -> Table:
    own, closure = scores[energy], scores["closure"]
    rows = [
        Row(words, [percent(own.get(name)), percent(closure.get(name)), f"{own[f'{name}_pairs']:,}"])
        for name, words in PARTS.items()
        if name in own
    ]
    return Table("Percent right", ("part", energy, "closure", "pairs"), rows, style="narrow")


def _mistakes(mistakes: Sequence[Mapping[str, Any]]) -> Markup:
    rows = []
    for one in mistakes:
        label = ("true" if one["label"] else "false") + (", direct" if one["direct"] else "")
        hypernym = Cell(one["hypernym"], [one["hypernym_gloss"]], style="prose")
        rows.append(Row(one["hyponym"], [hypernym, label, f"{one['energy']:.3f}"], detail=one["hyponym_gloss"]))
    columns = ("hyponym", Cell("hypernym", style="prose"), "label", "energy")
    return html.table(Table("", columns, rows, style="sortable glosses"))
