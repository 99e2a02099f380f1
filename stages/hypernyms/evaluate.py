"""The stage evaluate: reads the taxonomy and the concepts; writes the scores of the split, the plots, the mistakes,
and the page.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sightword.evaluation.ledger import Enter, alone, count_of, hash_of, scored
from sightword.hypernyms.judging.settings import HypernymsSettings

log = logging.getLogger(__name__)

SETTINGS = HypernymsSettings
SCORES = True
"""Whether scorings are entered in the ledger."""

TAXONOMY = Path("data/hypernyms/taxonomy")
CONCEPTS = Path("models/hypernyms/concepts")
EMBED = Path("metrics/hypernyms/train.json")
CURVES = Path("plots/hypernyms/train")


def work(settings: HypernymsSettings, *, enter: Enter = alone) -> None:
    """Judge predicted hypernyms, and write the page."""
    from sightword.hypernyms.data.storage import read_prepared
    from sightword.hypernyms.judging import measuring
    from sightword.hypernyms.page import drawings
    from sightword.hypernyms.page.page import render
    from sightword.hypernyms.page.words import look_up
    from sightword.hypernyms.training.concepts import Concepts
    from sightword.io.files import atomic_folder, read_json, write_json, write_table, write_text, write_tsv
    from sightword.report.binary import curve, energies
    from sightword.statistics.inference import with_interval

    prepared = read_prepared(TAXONOMY)
    concepts = Concepts.load(CONCEPTS)
    embedding = read_json(EMBED)
    found = measuring.measure(prepared, concepts, embedding, settings)
    own = found.metrics[settings.split][embedding["energy"]]
    pairs, names = prepared.pairs[settings.split], prepared.taxonomy.names
    sides = ([names[row] for row in side.tolist()] for side in (pairs.hyponyms, pairs.hypernyms))
    rows = list(zip(*sides, pairs.labels.tolist(), strict=True))
    entry = scored(settings.split, "hypernyms", rows, hash_of(CONCEPTS))
    how_often = count_of(entry, enter(entry))
    drawn = [
        curve(CURVES / "dev.tsv", embedding["criterion"], "Score on dev."),
        curve(CURVES / "loss.tsv", "loss", "Training loss."),
        energies(found.histogram, own["threshold"]),
        drawings.accuracies("depth", found.by_depth, "edges from the hyponym to a root", "Accuracy by depth."),
        drawings.accuracies("distance", found.by_distance, "edges from hyponym to hypernym", "Accuracy by distance."),
    ]
    with atomic_folder("data/hypernyms/scores") as folder:
        write_table(folder / "mistakes.parquet", found.mistakes)
        write_table(folder / "scores.parquet", found.scores)
    with atomic_folder("plots/hypernyms/evaluate") as folder:
        write_tsv(folder / "energies.tsv", ("from", "to", "true", "false"), found.histogram)
        write_tsv(folder / "depth.tsv", ("depth", "accuracy", "pairs"), found.by_depth)
        write_tsv(folder / "distance.tsv", ("distance", "accuracy", "pairs"), found.by_distance)
    words = look_up(concepts, prepared.taxonomy, pairs)
    listed = found.mistakes.to_pylist()
    text = render(found.metrics, prepared.counts, embedding, drawn, listed, words, settings, how_often)
    with atomic_folder("report/hypernyms") as folder:
        write_text(folder / "index.html", text)
        for one in drawn:
            write_text(folder / "plots" / f"{one.name}.svg", one.svg())
    write_json("metrics/hypernyms/evaluate.json", found.metrics)
    write_json("metrics/hypernyms/summary.json", found.summary)
    log.info(
        "evaluate: %s, accuracy %s %% (closure %.2f, ceiling %.2f), direct edges %.1f %%, F1 %.2f",
        *(settings.split, with_interval(own["accuracy"], own["accuracy_ci95"], 2)),
        found.metrics[settings.split]["closure"]["accuracy"],
        *(found.metrics[settings.split]["ceiling"], own.get("direct", float("nan")), own["f1"]),
    )
