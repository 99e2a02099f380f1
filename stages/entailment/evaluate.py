"""The stage evaluate: reads the pairs, the trained encoder and other encoders; writes the scores of the split, the
plots, the mistakes, and the page.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sightword.entailment.judging.settings import EntailmentSettings
from sightword.evaluation.ledger import Enter, alone, count_of, hash_of, scored

log = logging.getLogger(__name__)

SETTINGS = EntailmentSettings
SCORES = True
"""Whether scorings are entered in the ledger."""

PAIRS = Path("data/entailment/pairs")
MODELS = Path("models/entailment")
TRAINING = Path("metrics/entailment/train.json")
CURVES = Path("plots/entailment/train")


def work(settings: EntailmentSettings, *, enter: Enter = alone) -> None:
    """Judge entailment, and write the page."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.entailment.data.pairs import FOLDER, read_split
    from sightword.entailment.judging.measuring import TAKEN, measure, read_others
    from sightword.entailment.page.page import render
    from sightword.entailment.training.energies import read_decision
    from sightword.io.files import atomic_folder, read_json, write_json, write_table, write_text, write_tsv
    from sightword.report.binary import curve, energies

    device = devices.use(machine.current())
    splits = {name: read_split(PAIRS, name) for name in dict.fromkeys(("train", "dev", settings.split))}
    counts, chosen, training = FOLDER.read(PAIRS)[0], read_decision(MODELS), read_json(TRAINING)
    encoder = SentenceEncoder.load(MODELS / "encoder", device=device)
    others = read_others(settings.encoders, TAKEN, device)
    found = measure(splits, encoder, chosen, others, settings, device=device)
    pairs = splits[settings.split]
    judged = list(zip(pairs.premises, pairs.hypotheses, pairs.labels, strict=True))
    folders = [MODELS / "encoder", *(Path(settings.encoders) / one.name for one in others)]
    entries = [one for folder in folders for one in scored(settings.split, "entailment", judged, hash_of(folder))]
    how_often = count_of(entries, enter(entries))
    drawn = [
        curve(CURVES / "dev.tsv", "accuracy", "Score on dev."),
        curve(CURVES / "loss.tsv", "loss", "Training loss."),
        energies(found.histogram, chosen["threshold"], ("entailed", "other")),
    ]
    text = render(found.metrics, counts, training, drawn, found.mistakes.to_pylist(), settings, how_often)
    with atomic_folder("data/entailment/scores") as folder:
        write_table(folder / "mistakes.parquet", found.mistakes)
        write_table(folder / "scores.parquet", found.scores)
    with atomic_folder("plots/entailment/evaluate") as folder:
        write_tsv(folder / "energies.tsv", ("from", "to", "entailed", "other"), found.histogram)
    with atomic_folder("report/entailment") as folder:
        write_text(folder / "index.html", text)
        for one in drawn:
            write_text(folder / "plots" / f"{one.name}.svg", one.svg())
    write_json("metrics/entailment/evaluate.json", found.metrics)
    write_json("metrics/entailment/summary.json", found.summary)
    own = found.summary
    log.info("evaluate: %s, accuracy %.2f %%, majority %.2f %%", settings.split, own["accuracy"], own["majority"])
