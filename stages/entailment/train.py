"""The stage train: reads sentence pairs, and perhaps an encoder to start from; writes the encoder that is best on dev,
its threshold, the curves, and a few numbers.

A half-done run lives in the folder that ``SIGHTWORD_SCRATCH`` names, so that a killed run resumes where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from sightword.entailment.training.settings import EntailSettings

log = logging.getLogger(__name__)

SETTINGS = EntailSettings
CHECKPOINT = True
"""Whether a killed run goes on where it was."""

PAIRS = Path("data/entailment/pairs")
MODELS = Path("models/entailment")


def work(settings: EntailSettings, *, inputs: str = "") -> Callable[[], object]:
    """Train an encoder on sentence pairs; dev chooses weights and threshold."""
    from sightword import machine
    from sightword.captions.normalise import Normalisation
    from sightword.captions.vocabulary import Vocabulary
    from sightword.compute import devices
    from sightword.encoder.parts import Part
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.encoder.start import read_start, report_unknown
    from sightword.entailment.data.pairs import read_split
    from sightword.entailment.training.batches import EncodedPairs
    from sightword.entailment.training.energies import DECISION
    from sightword.entailment.training.task import shape_of, train
    from sightword.io.files import atomic_folder, write_json
    from sightword.io.saved import SUMS
    from sightword.training.checkpoint import open_checkpoint
    from sightword.training.curves import write_curves

    pairs = {split: read_split(PAIRS, split) for split in ("train", "dev")}
    start = read_start(settings.encoders, settings.start) if settings.start else None
    if start is not None:
        vocabulary = start.vocabulary
    else:
        texts = [*pairs["train"].premises, *pairs["train"].hypotheses]
        normalise = Normalisation(settings.unicode, settings.case, settings.whitespace, settings.full_stop)
        vocabulary = Vocabulary.build(texts, normalise=normalise, min_count=settings.min_count, unit=settings.unit)
    training, dev = (EncodedPairs.of(pairs[split], vocabulary) for split in ("train", "dev"))
    if start is not None:
        report_unknown(str(settings.start), start, training.sentences)
    here = machine.current()
    device = devices.use(here, deterministic=settings.deterministic)
    log.info(
        "train: %d training pairs of %d different sentences, %d tokens%s",
        *(len(training), len(training.sentences), len(vocabulary)),
        f", from the encoder {settings.start}" if settings.start else "",
    )
    parameters = settings.model_dump()
    with open_checkpoint(
        here.scratch, "entailment", inputs=inputs, device=device.type, parameters=parameters
    ) as checkpoint:
        run = train(
            settings, training, dev, tokens=len(vocabulary), device=device, start=start, checkpoint=checkpoint,
            progress=True,
        )  # fmt: skip
        captions, now = run.captions, run.progress
        threshold = now.notes["threshold"]
        notes = {"trained_on": "sentence pairs", "training": settings.model_dump(), "epochs": settings.epochs}
        encoder = SentenceEncoder([Part(captions, vocabulary, shape_of(settings, start))], notes=notes)
        decision = {"energy": settings.energy, "threshold": threshold, "criterion": "accuracy", "dev": now.best}
        with atomic_folder(MODELS) as folder:
            encoder.save(folder / "encoder")
            DECISION.write(folder, decision, [f"encoder/{SUMS}"])
        with atomic_folder("plots/entailment/train") as folder:
            write_curves(folder, now)
        write_json(
            "metrics/entailment/train.json",
            {
                "energy": settings.energy,
                "device": device.type,
                "pairs": len(training),
                "sentences": len(training.sentences),
                "tokens": len(vocabulary),
                "parameters": sum(weights.numel() for weights in captions.parameters()),
                "batches": now.steps,
                "best_batch": now.best_step,
                "dev": round(now.best, 4),
                "loss": round(now.last("loss", "loss"), 6),
                "threshold": threshold,
            },
        )
        log.info(
            "train: %s, dev accuracy %.2f %% at batch %d of %d",
            *(settings.energy, now.best, now.best_step, now.steps),
        )
        return checkpoint.finished()
