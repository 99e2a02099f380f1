"""The run in words and a few numbers: warnings of every fallback, headlines, parameters, and the summary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from typing import Any

from sightword.evaluation.semantics.results import mean_of_seven
from sightword.features.tables.origin import control, describe, random_weights
from sightword.messages import flat
from sightword.report import number_formats
from sightword.report.gallery import Gallery, headline_split
from sightword.report.html_page import DEMONSTRATED, Headline, Note
from sightword.report.inputs import RunNumbers
from sightword.report.number_formats import count, counted, is_number, much_seen, share
from sightword.vse.page import tables

_NO_EVIDENCE = "Its numbers show what remains without the right pictures or captions, and are no result of the method."
CPU = Note("CPU", "Trained on a CPU; a GPU rounds differently and ends at slightly different scores.")
FOUND = {
    "caption_to_image": ("caption to picture, R@10", "the right one in the first ten"),
    "image_to_caption": ("picture to caption, R@10", "a right one in the first ten"),
}
"""The name of recall@10 in each direction, and its meaning."""
DIRECTIONS = (("image", "caption_to_image"), ("caption", "image_to_caption"))
"""The direction of each kind of answer."""
PROTOCOLS = (("", "full"), ("_1k", "five_fold_1k"), ("_querybank", "querybank"))


def notes(run: RunNumbers, gallery: Gallery) -> list[Note]:
    """Return the warnings, the most serious first."""
    lost = 0 if run.rejects else run.train.get("rejected_pictures")
    left_out = [_reasons(counts, kind) for kind, counts in run.dropped.items() if counts]
    drawn = next((str(one["drawn_splits"]) for one in run.retrieval.values() if "drawn_splits" in one), "")
    scored = [(f"{name} {key}".strip(), scores) for name, key, scores in tables.scored(run.semantics)]
    copies = [(name, scores["seen_in_training"]) for name, scores in scored if much_seen(scores)]
    seen = ", ".join(f"{name} ({share(part)})" for name, part in copies)
    undefined = ", ".join(name for name, scores in scored if scores["pearson"] is None)
    zeros = ", ".join(
        f"{name} ({count(scores['zero_vectors'])} sentences)" for name, scores in scored if scores.get("zero_vectors")
    )
    missing = "; ".join(f"{name}: {reason}" for name, reason in run.semantics.get("skipped", {}).items())
    skipped = tables.skipped(run.retrieval)
    elsewhere = f"The features were computed elsewhere and are used unchanged: {origin(run.features)}"
    unusable = f"Unusable pictures are in none of the numbers: {_reasons(run.rejects, 'picture')}."
    copied = f"At least a tenth of the sentences of these sets are training captions: {seen}."
    known: list[tuple[object, Note]] = [
        (random_weights(run.features), DEMONSTRATED),
        (control(run.training), Note("A control", f"{control(run.training)} {_NO_EVIDENCE}", serious=True)),
        (is_precomputed(run.features), Note("Precomputed features", elsewhere)),
        (run.rejects, Note("Skipped pictures", unusable)),
        (
            is_number(lost) and lost > 0,
            Note("Pictures without features", f"{count(lost)} of them, which are in none of the numbers."),
        ),
        (drawn, Note("Drawn splits", f"{drawn}. The corpus names none of them.")),
        (left_out, Note("Left out of the corpus", "; ".join(left_out) + ".")),
        (seen, Note("Seen in training", copied)),
        (missing, Note("Missing data sets", f"{missing}.")),
        (skipped, Note("Skipped protocols", "; ".join(skipped) + ".")),
        (undefined, Note("No correlation", f"{undefined}: all pairs have the same score.", serious=True)),
        (zeros, Note("Vectors of zeros", f"{zeros}: their cosines count as 0.", serious=True)),
        (gallery.without_thumbnails, Note("No pictures to show", why_no_pictures(run, gallery))),
    ]
    return [note for applies, note in known if applies]


def remarks(run: RunNumbers) -> list[Note]:
    """Return facts of the run that are no faults of it."""
    others = ", ".join(tables.not_requested(run.semantics))
    known = [
        (others, Note("Not evaluated", f"{others}: not among the run's tasks.")),
        (run.train.get("device") == "cpu", CPU),
    ]
    return [note for applies, note in known if applies]


def headlines(run: RunNumbers, captions_each: Mapping[str, list[int]]) -> list[Headline]:
    """Return the few numbers that sum up the run."""
    tiles = []
    split = headline_split(run.retrieval)
    scores, each = run.retrieval.get(split, {}).get("full", {}), captions_each.get(split)
    for direction, (what, meaning) in FOUND.items():
        value, interval = (scores.get(direction, {}).get(key) for key in ("r10", "r10_ci95"))
        if is_number(value):
            context = f"{meaning}; split {split}"
            if each:
                candidates = len(each) if direction == "caption_to_image" else sum(each)
                by_chance = tables.chance(direction, each, 10)
                context = f"{meaning} of {candidates:,}; split {split}; chance: {by_chance:.1f} %"
            shown, remark = number_formats.tile(value, interval)
            tiles.append(Headline(shown, what, f"{remark}; {context}" if remark else context))
    mean = tables.headline(run.semantics)
    if mean is not None:
        what = f"mean Pearson r over {mean[0]}"
        context = "1 is agreement with human scores"
        if (floor := tables.headline_of(run.semantics, "tfidf")) is not None:
            context += f"; {number_formats.correlation(floor)} without training (tf-idf of n-grams)"
        tiles.append(Headline(number_formats.correlation(mean[1]), what, context))
    return tiles


def chips(run: RunNumbers) -> list[str]:
    """Return facts of the run in a few words each; an unknown one is empty."""
    training, features, members = run.training, run.features, run.select.get("members")
    cell, hidden = str(training.get("cell") or ""), training.get("hidden")
    kinds = {"ngrams": "bag of n-grams", "tfidf": "bag of n-grams, weighted by their frequency"}
    network = kinds.get(cell, cell.upper() + (f", {hidden:,} units" if isinstance(hidden, int) else ""))
    snapshots = f"sum of {counted(int(members), 'snapshot')}" if is_number(members) else ""
    return [network, f"features of {describe(features)}" if features.get("backbone") else "", snapshots]


def parameters(run: RunNumbers) -> dict[str, Mapping[str, Any]]:
    """Return the parameters and the results of each stage, as tables of key and value by head."""
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


def summary(run: RunNumbers) -> dict[str, float | str]:
    """Return the content of ``metrics/summary.json``.

    Returns:
        ``dev_r10``: mean recall@10 of both directions on dev, which selects models. Then, for the scored ``split``, in
            percent: ``image_r1`` and ``image_r10`` (pictures found by captions), ``caption_r1`` and ``caption_r10``
            (captions found by pictures), the same with ``_1k`` for five folds, and with ``_querybank`` for scores
            with a query bank. As fractions: ``sts``, the mean of Pearson's r over all STS subtasks, ``stsb`` and
            ``sick``, Pearson's r of the test pairs' cosines, and ``seven``, Spearman's mean over the seven tasks
            (:func:`sightword.evaluation.semantics.results.mean_of_seven`). Missing numbers are left out.
    """
    found: dict[str, object] = {"dev_r10": run.select.get("ensemble_r10")}
    retrieval, semantics, mean = flat(run.retrieval), flat(run.semantics), tables.headline(run.semantics)
    if run.retrieval:
        split = found["split"] = headline_split(run.retrieval)
        for (suffix, protocol), (short, direction), recall in product(PROTOCOLS, DIRECTIONS, ("r1", "r10")):
            found[f"{short}_{recall}{suffix}"] = retrieval.get(f"{split}.{protocol}.{direction}.{recall}")
    found["sts"] = mean and mean[1]
    found["stsb"] = semantics.get("STSBenchmark.cosine.pearson")
    found["sick"] = semantics.get("SICKRelatedness.cosine.pearson")
    found["seven"] = mean_of_seven(run.semantics)
    return {name: value for name, value in found.items() if is_number(value) or isinstance(value, str)}


def is_precomputed(features: Mapping[str, Any]) -> bool:
    """Return whether the features were computed elsewhere."""
    return "precomputed" in f"{features.get('origin', '')} {features.get('weights', '')}".lower()


def origin(features: Mapping[str, Any]) -> str:
    """Return the recorded origin of precomputed features, without hashes."""
    words = str(features.get("origin") or "of unknown origin").removeprefix("precomputed").lstrip(": ")
    words = re.sub(r" \(sha256 [0-9a-f]{64}\)", "", words)
    return (words or "of unknown origin").rstrip(".") + "."


def why_no_pictures(run: RunNumbers, gallery: Gallery) -> str:
    """Return the reason why the gallery shows text instead of some pictures."""
    total = gallery.with_thumbnails + gallery.without_thumbnails
    share = "none" if not gallery.with_thumbnails else f"{gallery.with_thumbnails} of the {total}"
    precomputed = "the features came precomputed, without pictures"
    why = precomputed if is_precomputed(run.features) else "the others were not resized"
    rest = "ids and captions replace the others"
    return f"The resized pictures include {share} of the gallery's pictures ({why}); {rest}."


def _reasons(counts: Mapping[str, int], kind: str) -> str:
    """Return a summary such as ``3 pictures (1 empty, 2 truncated)``."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
    return f"{counted(sum(counts.values()), kind)} ({reasons})"
