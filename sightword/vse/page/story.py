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
    """Describe in sentences what was trained on what, as far as known."""
    train, features, training = run.train, run.features, run.training
    found = "A sentence encoder"
    kind, hidden = str(training.get("cell") or "").upper(), training.get("hidden")
    if kind in ("NGRAMS", "TFIDF"):
        found += f" (a bag of n-grams{', weighted by their frequency' * (kind == 'TFIDF')})"
    elif kind:
        found += f" ({kind}, {hidden:,} units)" if isinstance(hidden, int) else f" ({kind})"
    if parameters := _counted(train, "parameters"):
        found += f" of {parameters}"
    found += f" learned from {_counted(train, 'captions') or 'captions'}"
    if pictures := _counted(train, "pictures"):
        found += f" of {pictures}"
    if epochs := _counted(train, "epochs"):
        found += f" in {epochs}"
    found += ", reading characters without a list of words" if run.unit == "character" else f", reading {run.unit}s"
    if kept := control(training):
        found += f". {kept.removesuffix('.')}"
    if training.get("pictures") == "none" or kind == "TFIDF":
        pass
    elif features.get("backbone"):
        found += f". It saw the pictures as features of {describe(features)}"
    elif notes.is_precomputed(features):
        found += ". It saw the pictures as features that were computed elsewhere"
    similarity = str(run.description.get("similarity", "cosine"))
    if similarity != "cosine":
        named = "the dot product" if similarity == "dot" else similarity.replace("_", " ")
        found += f". Captions and pictures are compared by {named}, two sentences by the cosine"
    members = run.select.get("members")
    if is_number(members):
        evaluated = "one snapshot" if members == 1 else f"the sum of {members} snapshots"
        found += f". Evaluated: {evaluated}{', chosen by recall on the split dev' * (kind != 'TFIDF')}"
        if names := run.select.get("beside"):
            found += f", and beside it the encoders of other training runs ({str(names).replace('+', ', ')})"
    return found + "."


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
