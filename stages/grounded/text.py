"""The stage text: reads ordered text, or writes the sample's stories, and the captions; writes their word ids, the
vocabulary, and their counts.
"""

from __future__ import annotations

import logging

from sightword.text.settings import TextSettings

log = logging.getLogger(__name__)

SETTINGS = TextSettings


def work(settings: TextSettings) -> None:
    """Turn ordered text and the captions into ids of words, and hold a part of the text out."""
    from sightword.captions.table import read_texts
    from sightword.io.files import atomic_folder, write_json
    from sightword.text.building import build_text

    captions = read_texts("data/corpus/captions.parquet")
    with atomic_folder("data/text") as folder:
        counts = build_text(settings, captions, folder, progress=True)
    write_json("metrics/grounded/text.json", counts)
    log.info("text: %d sentences, %d triples for training", counts["sentences"], counts["training"]["triples"])
    unknown = ", ".join(f"{part['unknown']:.1f} % of {name}" for name, part in counts["captions"].items())
    log.info(
        "text: %d words in the vocabulary; unknown: %.1f %% of the text, %s captions",
        *(counts["vocabulary"], counts["unknown"], unknown),
    )
    if counts["lines_with_markup"]:
        log.warning("text: %d lines have markup, which is read as words", counts["lines_with_markup"])
