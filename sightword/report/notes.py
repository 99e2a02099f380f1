"""Warns the reader first: every fallback of the run, in plain sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sightword.features.origin import DEMONSTRATION, random_weights
from sightword.report import retrieval_table, semantics_table
from sightword.report.gallery import Gallery
from sightword.report.inputs import Run
from sightword.report.number_formats import counted, is_number


@dataclass(frozen=True)
class Note:
    """One warning; ``serious`` if it makes the numbers incomparable with published ones."""

    head: str
    text: str
    serious: bool = False


def notes(run: Run, gallery: Gallery) -> list[Note]:
    """Return the warnings, the most serious first."""
    found = []
    features = run.features
    if random_weights(features):
        found.append(
            Note(
                DEMONSTRATION,
                "The image network was never trained, so its features are arbitrary though fixed. "
                "The run shows that every part works; its numbers are no evidence about the method.",
                serious=True,
            )
        )
    if is_precomputed(features):
        found.append(
            Note(
                "Precomputed features",
                "The features were computed elsewhere and are used unchanged: " + origin(features),
            )
        )
    if run.rejects:
        summary = _reasons(run.rejects, "picture")
        found.append(Note("Skipped pictures", f"Unusable pictures are in none of the numbers: {summary}."))
    lost = run.train.get("rejected_pictures")
    if not run.rejects and is_number(lost) and lost > 0:
        found.append(Note("Pictures without features", f"{lost:,} of them, which are in none of the numbers."))
    left_out = [_reasons(counts, kind) for kind, counts in run.dropped.items() if counts]
    if left_out:
        found.append(Note("Left out of the corpus", "; ".join(left_out) + "."))
    seen = semantics_table.much_seen(run.semantics)
    if seen:
        found.append(
            Note(
                "Seen in training",
                f"At least a tenth of the sentences of these sets are training captions: {', '.join(seen)}.",
            )
        )
    missing = semantics_table.missing(run.semantics)
    if missing:
        found.append(Note("Missing data sets", f"Not evaluated on {', '.join(missing)}."))
    skipped = retrieval_table.skipped(run.retrieval)
    if skipped:
        found.append(Note("Skipped protocols", "; ".join(skipped) + "."))
    undefined = semantics_table.undefined(run.semantics)
    if undefined:
        found.append(Note("No correlation", ", ".join(undefined) + ": all pairs have the same score.", serious=True))
    zeros = semantics_table.zeros(run.semantics)
    if zeros:
        found.append(Note("Vectors of zeros", ", ".join(zeros) + ": their cosines count as 0.", serious=True))
    if gallery.without_thumbnails:
        found.append(Note("No pictures to show", why_no_pictures(run, gallery)))
    if run.train.get("device") == "cpu":
        found.append(Note("CPU", "Trained on a CPU; a GPU rounds differently and ends at slightly different scores."))
    return found


def is_precomputed(features: Mapping[str, Any]) -> bool:
    """Return whether the features were computed elsewhere."""
    return "precomputed" in f"{features.get('origin', '')} {features.get('weights', '')}".lower()


def origin(features: Mapping[str, Any]) -> str:
    """Return the recorded origin of precomputed features, without hashes."""
    words = str(features.get("origin") or "of unknown origin").removeprefix("precomputed").lstrip(": ")
    words = re.sub(r" \(sha256 [0-9a-f]{64}\)", "", words)
    return (words or "of unknown origin").rstrip(".") + "."


def why_no_pictures(run: Run, gallery: Gallery) -> str:
    """Return the reason why the gallery shows text instead of some pictures."""
    total = gallery.with_thumbnails + gallery.without_thumbnails
    share = "none" if not gallery.with_thumbnails else f"{gallery.with_thumbnails} of the {total}"
    why = (
        "the features came precomputed, without pictures"
        if is_precomputed(run.features)
        else "the others were not resized"
    )
    return (
        f"The resized pictures include {share} of the gallery's pictures ({why}); ids and captions replace the others."
    )


def _reasons(counts: Mapping[str, int], kind: str) -> str:
    """Return a summary such as ``3 pictures (1 empty, 2 truncated)``."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
    return f"{counted(sum(counts.values()), kind)} ({reasons})"
