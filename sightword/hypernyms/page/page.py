"""Writes the page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sightword.evaluation.published.rows import published
from sightword.hypernyms.judging.settings import HypernymsSettings
from sightword.report import html_page
from sightword.report.drawing import Drawing
from sightword.report.number_formats import NONE, flat, is_number, percent, tile
from sightword.statistics import proportion_interval, with_interval

FILES = ("page.html", "page.css")
"""The files beside this module from which :func:`sightword.report.html_page.render` makes the page."""
PARTS = {
    "direct": "direct edges",
    "indirect": "all other true pairs",
    "inferable": "true pairs that follow from training and dev",
    "not_inferable": "true pairs that do not follow",
    "hyponym_replaced": "false pairs, hyponym replaced",
    "hypernym_replaced": "false pairs, hypernym replaced",
}
CAPTIONS = (
    ("Score on dev (%)", "dev"),
    ("Training loss", "loss"),
    ("Energies", "energies"),
    ("Accuracy by the hyponym's depth", "depth"),
    ("Accuracy on true pairs by distance", "distance"),
)


def render(
    metrics: Mapping[str, Any],
    counts: Mapping[str, Any],
    embedding: Mapping[str, Any],
    drawings: Sequence[Drawing],
    mistakes: Sequence[Mapping[str, Any]],
    settings: HypernymsSettings,
) -> str:
    """Return the text of the page.

    Args:
        metrics: the content of ``metrics/hypernyms/evaluate.json``.
        counts: of ``taxonomy.json``.
        embedding: of ``metrics/hypernyms/train.json``.
        drawings: those named in :data:`CAPTIONS`, and ``plane``.
        mistakes: rows of ``mistakes.parquet``.
        settings: of the page.
    """
    energy, scores = embedding["energy"], metrics[settings.split]
    drawn = dict.fromkeys([name for _, name in CAPTIONS] + ["plane"], Markup(""))
    drawn |= {one.name: html_page.inline(one) for one in drawings}
    part = counts[settings.split]
    closure = scores["closure"]
    return html_page.render(
        "sightword.hypernyms.page",
        title=settings.title,
        story=_story(counts, embedding),
        notes=_notes(counts, part),
        headlines=_headlines(scores, energy, part),
        split=settings.split,
        energy=energy,
        pairs=f"{part['true']:,} true and {part['false']:,} false",
        scores=_rows(scores, energy, counts["protocol"] if settings.published and settings.split == "test" else ""),
        parts=[
            (
                text,
                percent(scores[energy].get(name)),
                percent(closure.get(name)),
                f"{scores[energy][f'{name}_pairs']:,}",
            )
            for name, text in PARTS.items()
            if name in scores[energy]
        ],
        reconstruction=metrics.get("reconstruction"),
        captions=CAPTIONS,
        drawn=drawn,
        mistakes=mistakes,
        facts=[("Taxonomy and split", flat(counts)), ("Embedding", flat(embedding))],
    )


def _story(counts: Mapping[str, Any], embedding: Mapping[str, Any]) -> str:
    return (
        f"{counts['concepts']:,} concepts with {counts['edges']:,} edges, whose closure has {counts['pairs']:,} pairs. "
        f"Vectors with the energy {embedding['energy'].replace('_', ' ')} learned from {embedding['pairs']:,} pairs; "
        f"the weights of batch {embedding['best_batch']:,} of {embedding['batches']:,} are the best on dev."
    )


def _notes(counts: Mapping[str, Any], part: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    if part["mislabelled"]:
        text = (
            f"{part['mislabelled']:.1f} % of the false pairs are in the closure, so they are true. No classifier that "
            f"is right about the taxonomy has an accuracy above {part['ceiling']:.1f} %."
        )
        if "draws" in counts:
            drawn = counts["draws"]
            text += (
                f" Over {drawn['number']} splits drawn this way: {_spread(drawn['mislabelled'])} of the false pairs, "
                f"ceiling {_spread(drawn['ceiling'])}."
            )
        found.append(("Wrong labels", text))
    if part["in_training"]:
        found.append(("Leak", f"{part['in_training']:.1f} % of the true pairs are training pairs as well."))
    if not counts["protocol"]:
        found.append(("No published split", "No published number belongs beside these scores."))
    return found


def _spread(of: Mapping[str, float]) -> str:
    return f"{of['mean']:.1f} ± {of['deviation']:.1f} % ({of['lowest']:.1f} to {of['highest']:.1f})"


def _headlines(scores: Mapping[str, Any], energy: str, part: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    own = scores[energy]
    shown, remark = tile(own["accuracy"], own["accuracy_ci95"])
    closure, ceiling = f"closure {scores['closure']['accuracy']:.1f} %", f"ceiling {part['ceiling']:.1f} %"
    found = [(shown, "of pairs classified correctly", ", ".join(filter(None, (remark, closure, ceiling))))]
    if "direct" in own:
        shown, remark = tile(own["direct"], proportion_interval(own["direct"], own["direct_pairs"]))
        none = "the closure accepts none of them"
        found.append((shown, "of direct edges accepted", f"{remark}; {none}" if remark else none))
    found.append((f"{own['f1']:.1f}", "F1 of true pairs", f"closure {scores['closure']['f1']:.1f}"))
    return found


def _rows(scores: Mapping[str, Any], energy: str, protocol: str) -> list[dict[str, Any]]:
    found = []
    for name in (energy, "closure", "frequency"):
        own = scores[name]
        cells = [with_interval(own["accuracy"], own["accuracy_ci95"])]
        cells += [percent(own.get(key)) for key in ("true_right", "false_right", "f1")]
        cells += [f"{own[key]:.4f}" if is_number(own.get(key)) else NONE for key in ("auc", "average_precision")]
        shown = name.replace("_", " ")
        found.append({"kind": "ours" if name == energy else "", "name": shown, "detail": "", "cells": cells})
    ceiling = [percent(scores["ceiling"]), *[NONE] * 5]
    found.append({"kind": "chance", "name": "ceiling", "detail": "a truthful classifier", "cells": ceiling})
    for row in published("hypernyms"):
        if row.setting == protocol:
            cells = [percent(row.scores.get(column)) for column in ("accuracy", "", "", "f1", "", "")]
            detail = f"{row.source}, published"
            found.append({"kind": "published", "name": row.system, "detail": detail, "cells": cells})
    return found
