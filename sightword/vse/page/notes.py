"""Warns the reader first of every fallback of the run, and states other facts of it, in plain sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sightword.features.tables.origin import control, random_weights
from sightword.report.gallery import Gallery
from sightword.report.html_page import DEMONSTRATED, Note
from sightword.report.inputs import RunNumbers
from sightword.report.number_formats import count, counted, is_number, much_seen, share
from sightword.vse.page import retrieval_table, semantics_table

_NO_EVIDENCE = "Its numbers show what remains without the right pictures or captions, and are no result of the method."
CPU = Note("CPU", "Trained on a CPU; a GPU rounds differently and ends at slightly different scores.")


def notes(run: RunNumbers, gallery: Gallery) -> list[Note]:
    """Return the warnings, the most serious first."""
    lost = 0 if run.rejects else run.train.get("rejected_pictures")
    left_out = [_reasons(counts, kind) for kind, counts in run.dropped.items() if counts]
    drawn = next((str(one["drawn_splits"]) for one in run.retrieval.values() if "drawn_splits" in one), "")
    scored = [(f"{name} {key}".strip(), scores) for name, key, scores in semantics_table.scored(run.semantics)]
    copies = [(name, scores["seen_in_training"]) for name, scores in scored if much_seen(scores)]
    seen = ", ".join(f"{name} ({share(part)})" for name, part in copies)
    undefined = ", ".join(name for name, scores in scored if scores["pearson"] is None)
    zeros = ", ".join(
        f"{name} ({count(scores['zero_vectors'])} sentences)" for name, scores in scored if scores.get("zero_vectors")
    )
    missing = "; ".join(f"{name}: {reason}" for name, reason in run.semantics.get("skipped", {}).items())
    skipped = retrieval_table.skipped(run.retrieval)
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
    others = ", ".join(semantics_table.not_requested(run.semantics))
    known = [
        (others, Note("Not evaluated", f"{others}: not among the run's tasks.")),
        (run.train.get("device") == "cpu", CPU),
    ]
    return [note for applies, note in known if applies]


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
