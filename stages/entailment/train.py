"""The stage train: reads sentence pairs, and perhaps an encoder to start from; writes the encoder that is best on dev,
its threshold, the curves, and a few numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sightword.entailment.settings import EntailSettings

if TYPE_CHECKING:
    from sightword.captions.vocabulary import Vocabulary
    from sightword.encoder.parts import Part
    from sightword.entailment.training.task import PairTask

log = logging.getLogger(__name__)

SETTINGS = EntailSettings
CHECKPOINT = True

PAIRS = Path("data/entailment/pairs")
MODELS = Path("models/entailment")


def work(settings: EntailSettings, *, inputs: str = "") -> Callable[[], object]:
    """Train an encoder on sentence pairs; dev chooses weights and threshold."""
    from sightword import machine
    from sightword.captions.vocabulary import Normalisation, Vocabulary
    from sightword.compute import devices
    from sightword.encoder.derived import read_start, report_unknown
    from sightword.entailment.data.pairs import read_split
    from sightword.entailment.training.task import EncodedPairs, train
    from sightword.training.checkpoint import open_checkpoint

    pairs = {split: read_split(PAIRS, split) for split in ("train", "dev")}
    start, here = read_start(settings.encoders, settings.start) if settings.start else None, machine.current()
    texts = [*pairs["train"].premises, *pairs["train"].hypotheses]
    normalise = Normalisation(case=settings.case)
    vocabulary = start.vocabulary if start else Vocabulary.build(texts, normalise=normalise, unit=settings.unit)
    training, dev = (EncodedPairs.of(pairs[split], vocabulary) for split in ("train", "dev"))
    if start is not None:
        report_unknown(str(settings.start), start, training.sentences)
    device, parameters = devices.use(here), settings.model_dump()
    log.info(
        "train: %d training pairs of %d different sentences, %d tokens%s",
        *(len(training), len(training.sentences), len(vocabulary)),
        f", from the encoder {settings.start}" if settings.start else "",
    )
    with open_checkpoint(
        here.scratch, "entailment", inputs=inputs, device=device.type, parameters=parameters
    ) as checkpoint:
        task = train(
            settings, training, dev, tokens=len(vocabulary), device=device, start=start, checkpoint=checkpoint,
            progress=True,
        )  # fmt: skip
        _write(task, vocabulary, start)
        return checkpoint.finished()


def _write(task: PairTask, vocabulary: Vocabulary, start: Part | None) -> None:
    from sightword.encoder.parts import Part
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.entailment.training.energies import DECISION
    from sightword.entailment.training.task import shape_of
    from sightword.io.files import atomic_folder, write_json
    from sightword.io.saved import SUMS
    from sightword.training.engine import write_curves

    settings, now, threshold = task.settings, task.progress, task.progress.notes["threshold"]
    notes = {"trained_on": "sentence pairs", "training": settings.model_dump(), "epochs": settings.epochs}
    encoder = SentenceEncoder([Part(task.captions, vocabulary, shape_of(settings, start))], notes=notes)
    decision = {"energy": settings.energy, "threshold": threshold, "criterion": "accuracy", "dev": now.best}
    with atomic_folder(MODELS) as folder:
        encoder.save(folder / "encoder")
        DECISION.write(folder, decision, [f"encoder/{SUMS}"])
    with atomic_folder("plots/entailment/train") as folder:
        write_curves(folder, now)
    numbers = {
        "energy": settings.energy, "device": task.device.type, "pairs": len(task.training),
        "sentences": len(task.training.sentences), "tokens": len(vocabulary),
        "parameters": sum(weights.numel() for weights in task.captions.parameters()),
        "batches": now.steps, "best_batch": now.best_step, "dev": round(now.best, 4),
        "loss": round(now.last("loss", "loss"), 6), "threshold": threshold,
    }  # fmt: skip
    write_json("metrics/entailment/train.json", numbers)
    log.info("train: %s, dev accuracy %.2f %% at batch %d of %d", settings.energy, now.best, now.best_step, now.steps)
