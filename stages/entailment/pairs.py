"""The stage pairs: reads labelled sentence pairs, or draws those of the sample; writes the pairs of each
split, and their counts.
"""

from __future__ import annotations

import logging

from sightword.entailment.settings import SentencePairsSettings

log = logging.getLogger(__name__)

SETTINGS = SentencePairsSettings


def work(settings: SentencePairsSettings) -> None:
    """Read sentence pairs."""
    from sightword.entailment.data.pairs import write_pairs
    from sightword.entailment.data.sources import split_pairs
    from sightword.io.files import atomic_folder, write_json

    splits, counts = split_pairs(settings)
    with atomic_folder("data/entailment/pairs") as folder:
        write_pairs(folder, splits, counts)
    write_json("metrics/entailment/pairs.json", counts)
    for name, count in counts.items():
        log.info(
            "pairs: %s has %d pairs, %.1f %% entailed, %d undecided ones are left out",
            *(name, count["pairs"], count["entailed"], count["undecided"]),
        )
        if count["contradictory"]:
            log.warning(
                "pairs: %d pairs of %s stand there with another label too, and are kept",
                *(count["contradictory"], name),
            )
        if count.get("premises_in_training"):
            log.warning(
                "pairs: %d premises of %s are premises of training too (%.1f %% of the pairs)",
                *(count["premises_in_training"], name, count["pairs_with_premise_in_training"]),
            )
