"""The stage taxonomy: reads WordNet, a table of edges, or the sample's words; writes the concepts, the edges, the split
pairs of the closure, and their counts.
"""

from __future__ import annotations

import logging

from sightword.hypernyms.settings import TaxonomySettings

log = logging.getLogger(__name__)

SETTINGS = TaxonomySettings


def work(settings: TaxonomySettings) -> None:
    """Read a taxonomy, close it, and split its pairs."""
    from sightword.hypernyms.data.pairs import split, write_prepared
    from sightword.hypernyms.data.taxonomy import read_edges, read_scenes, read_wordnet
    from sightword.io.files import atomic_folder, write_json

    if settings.format == "wordnet":
        taxonomy = read_wordnet(settings.path, settings.relations)
    elif settings.format == "table":
        taxonomy = read_edges(settings.path, settings.relations)
    else:
        taxonomy = read_scenes(settings.path)
    pairs, counts = split(taxonomy, settings)
    with atomic_folder("data/hypernyms/taxonomy") as folder:
        write_prepared(folder, taxonomy, pairs, counts)
    write_json("metrics/hypernyms/taxonomy.json", counts)
    if taxonomy.doubled:
        log.warning("taxonomy: %d edges were given more than once", taxonomy.doubled)
    numbers = counts["concepts"], counts["pairs"], counts["test"]["ceiling"]
    log.info("taxonomy: %d concepts, %d pairs; the ceiling of test is %.1f %%", *numbers)
