"""The stage evaluate: reads the pairs, the trained encoder and other encoders; writes the scores, the plots, the
mistakes, and the page.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sightword.entailment.settings import EntailmentSettings, EntailSettings, SentencePairsSettings
from sightword.evaluation.ledger import Enter, alone, count_of, hash_of, scored
from sightword.report.departures import departures_of
from sightword.settings import SPLITS, Settings

log = logging.getLogger(__name__)

SETTINGS = EntailmentSettings
MADE_BY: dict[str, type[Settings]] = {"pairs": SentencePairsSettings, "train": EntailSettings}
ALSO = tuple(MADE_BY)
SCORES = True

PAIRS = Path("data/entailment/pairs")
MODELS = Path("models/entailment")
TRAINING = Path("metrics/entailment/train.json")
CURVES = Path("plots/entailment/train")
OUTPUTS = ("data/entailment/scores", "plots/entailment/evaluate", "report/entailment", "metrics/entailment")


def work(settings: EntailmentSettings, *, enter: Enter = alone, **made_by: Settings) -> None:
    """Judge entailment, and write the page."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.entailment.data.pairs import FOLDER, read_split
    from sightword.entailment.judging import TAKEN, measure, read_others
    from sightword.entailment.page import render
    from sightword.entailment.training.energies import read_decision
    from sightword.io.files import read_json
    from sightword.report import html_page
    from sightword.report.binary import curve, energies, write_report

    device = devices.use(machine.current())
    splits = {name: read_split(PAIRS, name) for name in SPLITS}
    counts, chosen, training = FOLDER.read(PAIRS)[0], read_decision(MODELS), read_json(TRAINING)
    encoder = SentenceEncoder.load(MODELS / "encoder", device=device)
    others = read_others(settings.encoders, TAKEN, device)
    measured = measure(splits, encoder, chosen, others, settings, device=device)
    pairs = splits["test"]
    judged = list(zip(pairs.premises, pairs.hypotheses, pairs.labels, strict=True))
    folders = [MODELS / "encoder", *(Path(settings.encoders) / one.name for one in others)]
    entries = [one for folder in folders for one in scored("test", "entailment", judged, hash_of(folder))]
    how_often = count_of(entries, enter(entries))
    drawn = [
        curve(CURVES / "dev.tsv", "accuracy", "Score on dev."),
        curve(CURVES / "loss.tsv", "loss", "Training loss."),
        energies(measured.histogram, chosen["threshold"], ("entailed", "other")),
    ]
    made = html_page.made(departures_of(made_by, MADE_BY), "report/entailment", hash_of(MODELS / "encoder"))
    text = render(measured.metrics, counts, training, drawn, measured.mistakes.to_pylist(), settings, how_often, made)
    write_report(measured, ("entailed", "other"), drawn, text, OUTPUTS)
    ours = measured.summary
    log.info("evaluate: test, accuracy %.2f %%, majority %.2f %%", ours["accuracy"], ours["majority"])
