"""The run in words and a few numbers: the story, the headlines, and the tables of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightword.features.tables.origin import control, describe
from sightword.report import number_formats
from sightword.report.gallery import headline_split
from sightword.report.html_page import Headline
from sightword.report.inputs import RunNumbers
from sightword.report.number_formats import counted, is_number
from sightword.vse.page import notes, retrieval_table, semantics_table

FOUND = {
    "caption_to_image": ("caption to picture, R@10", "the right one in the first ten"),
    "image_to_caption": ("picture to caption, R@10", "a right one in the first ten"),
}
"""The name of recall@10 in each direction, and its meaning."""


def headlines(run: RunNumbers, captions_each: Mapping[str, list[int]]) -> list[Headline]:
    """Return the few numbers that sum up the run."""
    found = []
    split = headline_split(run.retrieval)
    scores, each = run.retrieval.get(split, {}).get("full", {}), captions_each.get(split)
    for direction, (what, meaning) in FOUND.items():
        value, interval = (scores.get(direction, {}).get(key) for key in ("r10", "r10_ci95"))
        if is_number(value):
            context = f"{meaning}; split {split}"
            if each:
                candidates = len(each) if direction == "caption_to_image" else sum(each)
                by_chance = retrieval_table.chance(direction, each, 10)
                context = f"{meaning} of {candidates:,}; split {split}; chance: {by_chance:.1f} %"
            shown, remark = number_formats.tile(value, interval)
            found.append(Headline(shown, what, f"{remark}; {context}" if remark else context))
    mean = semantics_table.headline(run.semantics)
    if mean is not None:
        what = f"mean Pearson r over {mean[0]}"
        context = "1 is agreement with human scores"
        if (floor := semantics_table.headline_of(run.semantics, "tfidf")) is not None:
            context += f"; {number_formats.correlation(floor)} without training (tf-idf of n-grams)"
        found.append(Headline(number_formats.correlation(mean[1]), what, context))
    return found


def without_attention(training: Mapping[str, Any], beside: bool) -> str:
    """Return why an encoder has no attention weights, as the end of a sentence about it."""
    if beside:
        return "has parts that do not pool by attention"
    if training.get("cell") in ("ngrams", "tfidf"):
        return "takes the mean of its n-grams"
    return f"pools by {training.get('pooling') or 'other means'}, not by attention"


def story(run: RunNumbers) -> str:
    """Say in a sentence what was trained on what, as far as known."""
    found = f"A sentence encoder learned from {_counted(run.train, 'captions') or 'captions'}"
    if pictures := _counted(run.train, "pictures"):
        found += f" of {pictures}"
    return found + f", reading {'characters without a list of words' if run.unit == 'character' else f'{run.unit}s'}."


def chips(run: RunNumbers) -> list[str]:
    """Return further facts of the run in a few words each; an unknown one is empty."""
    train, features, training = run.train, run.features, run.training
    cell, hidden = str(training.get("cell") or ""), training.get("hidden")
    kinds = {"ngrams": "bag of n-grams", "tfidf": "bag of n-grams, weighted by their frequency"}
    kind = kinds.get(cell, cell.upper() + (f", {hidden:,} units" if isinstance(hidden, int) else ""))
    seen = ""
    if training.get("pictures") != "none" and cell != "tfidf":
        elsewhere = "features computed elsewhere" if notes.is_precomputed(features) else ""
        seen = f"features of {describe(features)}" if features.get("backbone") else elsewhere
    similarity = str(run.description.get("similarity", "cosine"))
    named = "dot product" if similarity == "dot" else similarity.replace("_", " ")
    compared = "" if similarity == "cosine" else f"{named} of captions and pictures, cosine of sentences"
    members, evaluated = run.select.get("members"), ""
    if is_number(members):
        evaluated = "one snapshot" if members == 1 else f"sum of {members} snapshots"
        chosen_by = "sentence similarity" if run.select.get("criterion") == "stsb_dev" else "recall"
        evaluated += f", chosen by {chosen_by} on dev" * (cell != "tfidf")
    names = str(run.select.get("beside") or "").replace("+", ", ")
    beside = f"joined with the encoders of other training runs ({names})" if names else ""
    width = run.select.get("lexical")
    lexical = f"joined with {counted(int(width), 'number')} of weighted n-grams" if is_number(width) else ""
    parameters, epochs = (_counted(train, name) for name in ("parameters", "epochs"))
    start = f"started from the encoder {name}" if (name := training.get("start")) else ""
    controlled = control(training).removesuffix(".")
    return [kind, parameters, epochs, start, controlled, seen, compared, evaluated, beside, lexical]


def facts(run: RunNumbers) -> dict[str, Mapping[str, Any]]:
    """Return all known facts about the run, as tables of key and value by head."""
    shown_elsewhere = ("training", "features")
    rest: dict[str, Any] = {key: value for key, value in run.description.items() if key not in shown_elsewhere}
    rest["tokens in the vocabulary"] = run.vocabulary
    return {
        "Training parameters": run.training,
        "Features": run.features,
        "Results of training": run.train,
        "Selection on dev": run.select,
        "Encoder": rest,
    }


def _counted(values: Mapping[str, Any], name: str) -> str:
    """Return a count with its noun, taken from the key; empty for an unknown count."""
    value = values.get(name)
    return counted(int(value), name.removesuffix("s")) if is_number(value) else ""
