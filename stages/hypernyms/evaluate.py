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
    from sightword.hypernyms.data.split import read_prepared
    from sightword.hypernyms.judging.measuring import measure
    from sightword.hypernyms.page.page import accuracies, look_up, render
    from sightword.hypernyms.training.concepts import Concepts
    from sightword.io.files import atomic_folder, read_json, write_json, write_table, write_text, write_tsv
    from sightword.report.binary import curve, energies

    prepared, concepts, embedding = read_prepared(TAXONOMY), Concepts.load(CONCEPTS), read_json(EMBED)
    found = measure(prepared, concepts, embedding, settings)
    pairs, names = prepared.pairs[settings.split], prepared.taxonomy.names
    sides = ([names[row] for row in side.tolist()] for side in (pairs.hyponyms, pairs.hypernyms))
    entry = scored(
        settings.split, "hypernyms", list(zip(*sides, pairs.labels.tolist(), strict=True)), hash_of(CONCEPTS)
    )
    how_often = count_of(entry, enter(entry))
    drawn = [
        curve(CURVES / "dev.tsv", embedding["criterion"], "Score on dev."),
        curve(CURVES / "loss.tsv", "loss", "Training loss."),
        energies(found.histogram, concepts.threshold),
        accuracies("depth", found.by_depth, "edges from the hyponym to a root", "Accuracy by depth."),
        accuracies("distance", found.by_distance, "edges from hyponym to hypernym", "Accuracy by distance."),
    ]
    words, listed = look_up(concepts, prepared.taxonomy, pairs), found.mistakes.to_pylist()
    text = render(found.metrics, prepared.counts, embedding, drawn, listed, words, settings, how_often)
    with atomic_folder("data/hypernyms/scores") as folder:
        write_table(folder / "mistakes.parquet", found.mistakes)
        write_table(folder / "scores.parquet", found.scores)
    with atomic_folder("plots/hypernyms/evaluate") as folder:
        write_tsv(folder / "energies.tsv", ("from", "to", "true", "false"), found.histogram)
        write_tsv(folder / "depth.tsv", ("depth", "accuracy", "pairs"), found.by_depth)
        write_tsv(folder / "distance.tsv", ("distance", "accuracy", "pairs"), found.by_distance)
    with atomic_folder("report/hypernyms") as folder:
        write_text(folder / "index.html", text)
        for one in drawn:
            write_text(folder / "plots" / f"{one.name}.svg", one.svg())
    write_json("metrics/hypernyms/evaluate.json", found.metrics)
    write_json("metrics/hypernyms/summary.json", found.summary)
    own = found.summary
    log.info("evaluate: %s, accuracy %.2f %%, closure %.2f %%", settings.split, own["accuracy"], own["closure"])
