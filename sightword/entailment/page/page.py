"""Writes the page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sightword.entailment.judging.measuring import IN_PARTS
from sightword.entailment.judging.published import differences
from sightword.entailment.judging.settings import EntailmentSettings
from sightword.evaluation.published.rows import published as published_rows
from sightword.report import html_page
from sightword.report.drawing import Drawing
from sightword.report.number_formats import FEW, NONE, counted, flat, percent, signed, tile
from sightword.statistics import with_interval

FILES = ("page.html", "page.css")
"""The files beside this module from which :func:`sightword.report.html_page.render` makes the page."""
CAPTIONS = (
    ("Score on dev (%)", "dev"),
    ("Training loss", "loss"),
    ("Energies", "energies"),
    ("Accuracy by words of the premise", "premise_words"),
    ("Accuracy by words of the hypothesis", "hypothesis_words"),
)
CLASSES = ("entailment", "neutral", "contradiction", "undecided")
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


def render(
    metrics: Mapping[str, Any],
    counts: Mapping[str, Any],
    training: Mapping[str, Any],
    drawings: Sequence[Drawing],
    mistakes: Sequence[Mapping[str, Any]],
    settings: EntailmentSettings,
) -> str:
    """Return the text of the page.

    Args:
        metrics: the content of ``metrics/entailment/evaluate.json``.
        counts: of ``pairs.json``.
        training: of ``metrics/entailment/train.json``.
        drawings: those named in :data:`CAPTIONS`.
        mistakes: rows of ``mistakes.parquet``.
        settings: of the page.
    """
    energy, scores = str(training["energy"]), metrics[settings.split]
    drawn = dict.fromkeys([name for _, name in CAPTIONS], Markup("")) | {
        one.name: html_page.inline(one) for one in drawings
    }
    others = {name: value["energy"] for name, value in metrics.get("encoders", {}).items()}
    gaps = differences(counts, settings.split)
    return html_page.render(
        "sightword.entailment.page",
        title=settings.title,
        story=_story(counts, training),
        notes=_notes(metrics, counts, gaps, scores, energy, settings),
        headlines=_headlines(scores, energy),
        split=settings.split,
        energy=energy,
        pairs=counted(scores[energy]["pairs"], "pair"),
        classes=[name for name in CLASSES if name in scores[energy]["class"]],
        scores=_rows(scores, energy, others, published=settings.published and not gaps),
        encoders=[_encoder(name, metrics, scores, energy, others) for name in others],
        tests=_tests(metrics["significance"], energy, others),
        parts=_parts(scores, energy),
        few=FEW,
        captions=CAPTIONS,
        drawn=drawn,
        mistakes=mistakes,
        gaps=gaps if settings.published else [],
        published=[(row.system, row.scores["accuracy"]) for row in published_rows("entailment")],
        source=published_rows("entailment")[0].source,
        facts=[("Pairs", flat(counts)), ("Training", flat(training)), ("Judging", flat(settings.model_dump()))],
    )


def system(name: str, energy: str, others: Mapping[str, str]) -> tuple[str, str]:
    """Return the shown name of a system, and a few words about it.

    Args:
        name: its key in the metrics.
        energy: the energy of the trained encoder.
        others: the energy of each other encoder.
    """
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


def _story(counts: Mapping[str, Any], training: Mapping[str, Any]) -> str:
    return (
        f"Does a premise entail a hypothesis? An encoder of both sentences learned from {counts['train']['pairs']:,} "
        f"labelled pairs with the energy {training['energy']}; the weights of batch {training['best_batch']:,} of "
        f"{training['batches']:,} are the best on dev ({counts['dev']['pairs']:,} pairs)."
    )


def _notes(
    metrics: Mapping[str, Any],
    counts: Mapping[str, Any],
    gaps: Sequence[str],
    scores: Scores,
    energy: str,
    settings: EntailmentSettings,
) -> list[tuple[str, str]]:
    found = []
    if settings.classifier.sides == "hypothesis":
        found.append(("A control", "The classifiers on an encoder's vectors see the hypothesis only."))
    if gaps:
        text = f"The published numbers belong to other pairs: {'; '.join(gaps)}."
        if counts["train"]["pairs"] < SMALL:
            text += " So few training pairs test the machinery, not the method."
        found.append(("Not the published protocol", text))
    alone, ours = scores["hypothesis_only"]["accuracy"], scores[energy]["accuracy"]
    difference, p = _between(energy, "hypothesis_only", metrics["significance"])
    if p is not None and (difference <= 0 or p >= LEVEL):
        text = f"{energy} has {ours:.1f} %, a classifier that does not see the premise {alone:.1f} %: "
        found.append(("No gain from the premise is shown", f"{text}a difference {_meaning(p)}."))
    if share := metrics["leak"]["premises_in_training"]:
        found.append(("Leak", f"{share:.2f} % of the pairs have a premise that stands in training as well."))
    return found


def _headlines(scores: Scores, energy: str) -> list[tuple[str, str, str]]:
    own, alone = scores[energy], scores["hypothesis_only"]["accuracy"]
    most, fresh = scores["majority"]["accuracy"], scores["new_words"]["accuracy"]
    shown, remark = tile(own["accuracy"], own["accuracy_ci95"])
    beside = ", ".join(filter(None, (remark, f"majority {most:.1f} %", f"new words {fresh:.1f} %")))
    return [
        (shown, "of pairs classified correctly", beside),
        (f"{own['class']['entailment']['accuracy']:.1f} %", "of entailed pairs accepted", f"F1 {own['f1']:.1f}"),
        (f"{alone:.1f} %", "without the premise", "hypothesis only"),
    ]


def _accuracy(scores: Mapping[str, Any]) -> str:
    return with_interval(scores["accuracy"], scores["accuracy_ci95"])


def _rows(scores: Scores, energy: str, others: Mapping[str, str], *, published: bool) -> list[dict[str, Any]]:
    found = []
    for name, own in scores.items():
        shown, detail = system(name, energy, others)
        kind = "ours" if name == energy else "chance" if name == "majority" else ""
        cells = [_accuracy(own)]
        cells += [percent(own["class"][label]["accuracy"]) for label in CLASSES if label in own["class"]]
        cells += [percent(own["f1"]), f"{own['auc']:.4f}", f"{own['average_precision']:.4f}"]
        found.append({"kind": kind, "name": shown, "detail": detail, "cells": cells})
    if published:
        blank = [NONE] * (len(found[0]["cells"]) - 1)
        found += [
            {
                "kind": "published",
                "name": row.system,
                "detail": f"{row.source}, published",
                "cells": [percent(row.scores["accuracy"]), *blank],
            }
            for row in published_rows("entailment")
        ]
    return found


def _encoder(
    name: str, metrics: Mapping[str, Any], scores: Scores, energy: str, others: Mapping[str, str]
) -> dict[str, Any]:
    """Return the comparison of one other encoder with its untrained network, on all pairs and on unseen premises."""
    unseen = metrics.get("unseen", {}).get(name, {})
    rest = unseen.get("systems", {})
    own = [name, f"{name}{_UNTRAINED}", f"{name}{_CLASSIFIER}", f"{name}{_UNTRAINED}{_CLASSIFIER}"]
    rows = [
        (*system(one, energy, others), _accuracy(scores[one]), _accuracy(rest[one]) if one in rest else NONE)
        for one in (*own, "new_words", "hypothesis_only", energy)
        if one in scores
    ]
    verdicts = []
    compared = [(own[0], other) for other in (own[1], "new_words")]
    compared += [(own[2], other) for other in (own[3], "new_words", "hypothesis_only")]
    for head, tests in (
        ("On all pairs", metrics["significance"]),
        ("On premises that are not training captions", unseen.get("significance", {})),
    ):
        for one, other in compared:
            difference, p = _between(one, other, tests)
            if p is not None:
                first, second = (system(key, energy, others)[0] for key in (one, other))
                verdicts.append(f"{head}: {first} against {second}, {signed(difference, 1)} points, {_meaning(p)}.")
    return {"name": name, "rows": rows, "unseen": unseen, "verdicts": verdicts}


def _between(one: str, other: str, tests: Mapping[str, Any]) -> tuple[float, float | None]:
    """Return the difference of two systems in percent, and the corrected p; None where they were not compared."""
    for key, sign in ((f"{one}_vs_{other}", 1), (f"{other}_vs_{one}", -1)):
        if key in tests:
            return sign * tests[key]["difference"], tests[key]["holm"]
    return 0.0, None


def _meaning(p: float) -> str:
    return f"{'beyond' if p < LEVEL else 'within'} chance (p {_probability(p)})"


def _probability(p: float) -> str:
    return "below 0.0001" if p < 0.0001 else f"{p:.4f}"


def _tests(tests: Mapping[str, Mapping[str, Any]], energy: str, others: Mapping[str, str]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, one in tests.items():
        first, second = (system(name, energy, others)[0] for name in key.split("_vs_"))
        better = "" if one["holm"] >= LEVEL else first if one["difference"] > 0 else second
        counts = (f"{one['only_first']:,}", f"{one['only_second']:,}")
        difference = signed(one["difference"], 1)
        found.append((first, second, difference, *counts, _probability(one["holm"]).replace("below ", "<"), better))
    return found


def _parts(scores: Scores, energy: str) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return by property the rows (value, this run, hypothesis only, new words, pairs) with enough pairs."""
    own, heads = (
        scores[energy],
        {"premise_words": "Words of the premise", "hypothesis_words": "Words of the hypothesis"},
    )
    if len(own["source"]) > 1:
        heads["source"] = "Source"
    return [
        (
            head,
            [
                (
                    value,
                    *(_accuracy(scores[name][by][value]) for name in (energy, *IN_PARTS)),
                    f"{own[by][value]['pairs']:,}",
                )
                for value in own[by]
                if own[by][value]["pairs"] >= FEW
            ],
        )
        for by, head in heads.items()
    ]
