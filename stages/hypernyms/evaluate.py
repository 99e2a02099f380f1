"""The stage evaluate: reads the taxonomy and the concepts; writes the scores, the plots, the mistakes, and the
page.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sightword.evaluation.ledger import Enter, alone, count_of, hash_of, scored
from sightword.hypernyms.settings import EmbedSettings, HypernymsSettings, TaxonomySettings
from sightword.report.departures import departures_of
from sightword.settings import Settings

log = logging.getLogger(__name__)

SETTINGS = HypernymsSettings
MADE_BY: dict[str, type[Settings]] = {"taxonomy": TaxonomySettings, "train": EmbedSettings}
ALSO = tuple(MADE_BY)
SCORES = True

TAXONOMY = Path("data/hypernyms/taxonomy")
CONCEPTS = Path("models/hypernyms/concepts")
EMBED = Path("metrics/hypernyms/train.json")
CURVES = Path("plots/hypernyms/train")
OUTPUTS = ("data/hypernyms/scores", "plots/hypernyms/evaluate", "report/hypernyms", "metrics/hypernyms")


def work(settings: HypernymsSettings, *, enter: Enter = alone, **made_by: Settings) -> None:
    """Judge predicted hypernyms, and write the page."""
    from sightword.hypernyms.data.pairs import read_prepared
    from sightword.hypernyms.judging import measure
    from sightword.hypernyms.page import render
    from sightword.hypernyms.training.concepts import Concepts
    from sightword.io.files import read_json
    from sightword.report import html_page
    from sightword.report.binary import curve, energies, write_report

    (taxonomy, splits, counts), concepts, embedding = read_prepared(TAXONOMY), Concepts.load(CONCEPTS), read_json(EMBED)
    measured = measure(taxonomy, splits, counts, concepts, embedding)
    pairs, names = splits["test"], taxonomy.names
    sides = ([names[row] for row in side.tolist()] for side in (pairs.hyponyms, pairs.hypernyms))
    rows = list(zip(*sides, pairs.labels.tolist(), strict=True))
    entry = scored("test", "hypernyms", rows, hash_of(CONCEPTS))
    how_often = count_of(entry, enter(entry))
    drawn = [
        curve(CURVES / "dev.tsv", embedding["criterion"], "Score on dev."),
        curve(CURVES / "loss.tsv", "loss", "Training loss."),
        energies(measured.histogram, concepts.threshold),
    ]
    made = html_page.made(departures_of(made_by, MADE_BY), "report/hypernyms", hash_of(CONCEPTS))
    text = render(measured.metrics, counts, embedding, drawn, measured.mistakes.to_pylist(), settings, how_often, made)
    write_report(measured, ("true", "false"), drawn, text, OUTPUTS)
    ours = measured.summary
    log.info("evaluate: test, accuracy %.2f %%, closure %.2f %%", ours["accuracy"], ours["closure"])
