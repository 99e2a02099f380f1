"""The stage entail: reads sentence pairs; writes the encoder with the best accuracy on dev, its threshold, the curves,
and a few numbers.

A half-done run lives in the folder that ``SIGHTWORD_SCRATCH`` names, so that a killed run resumes where it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

from sightword.entailment.training.settings import EntailSettings

log = logging.getLogger(__name__)

SETTINGS = EntailSettings

PAIRS = Path("data/entailment/pairs")
MODELS = Path("models/entailment")


def work(settings: EntailSettings) -> Callable[[], object]:
    """Train an encoder on sentence pairs; dev chooses weights and threshold."""
    import numpy as np
    import torch

    import sightword.entailment
    from sightword import machine
    from sightword.captions.normalise import Normalisation
    from sightword.captions.vocabulary import Vocabulary
    from sightword.compute import devices
    from sightword.encoder.parts import Part
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.entailment.data.pairs import FILE, read_split
    from sightword.entailment.training.batches import EncodedPairs
    from sightword.entailment.training.task import shape_of, train
    from sightword.io.files import atomic_folder, canonical_json, sha256_file, write_json, write_tsv
    from sightword.training.checkpoint import Checkpoint
    from sightword.training.code_hash import code_hash
    from sightword.training.scratch import take_folder

    pairs = {split: read_split(PAIRS, split) for split in ("train", "dev")}
    texts = [*pairs["train"].premises, *pairs["train"].hypotheses]
    normalise = Normalisation(settings.unicode, settings.case, settings.whitespace, settings.full_stop)
    vocabulary = Vocabulary.build(texts, normalise=normalise, min_count=settings.min_count, unit=settings.unit)
    training, dev = (EncodedPairs.of(pairs[split], vocabulary) for split in ("train", "dev"))
    here = machine.current()
    device = devices.use(here, deterministic=settings.deterministic)
    log.info(
        "entail: %d training pairs of %d different sentences, %d tokens",
        *(len(training), len(training.sentences), len(vocabulary)),
    )
    code = [sha256_file(path) for path in sorted(Path(sightword.entailment.__path__[0]).rglob("*.py"))]
    inputs = [
        *(settings.model_dump(), sha256_file(PAIRS / FILE), device.type, here.threads),
        *(code, code_hash(), torch.__version__, np.__version__),
    ]
    name = hashlib.sha256(canonical_json(inputs).encode()).hexdigest()[:32]
    with contextlib.ExitStack() as stack:
        checkpoint = Checkpoint(stack.enter_context(take_folder(here.scratch / "entail", name)))
        captions, now = train(
            settings, training, dev, tokens=len(vocabulary), device=device, checkpoint=checkpoint, progress=True
        )
        notes = {"trained_on": "sentence pairs", "training": settings.model_dump(), "epochs": settings.epochs}
        encoder = SentenceEncoder([Part(captions, vocabulary, shape_of(settings))], notes=notes)
        decision = {"energy": settings.energy, "threshold": now.threshold, "criterion": "accuracy", "dev": now.best}
        with atomic_folder(MODELS) as folder:
            encoder.save(folder / "encoder")
            write_json(folder / "entail.json", decision)
        with atomic_folder("plots/entailment/entail") as folder:
            write_tsv(folder / "loss.tsv", ("batch", "loss"), now.loss)
            write_tsv(folder / "dev.tsv", ("batch", "accuracy"), now.dev)
        write_json(
            "metrics/entailment/entail.json",
            {
                "energy": settings.energy,
                "device": device.type,
                "pairs": len(training),
                "sentences": len(training.sentences),
                "tokens": len(vocabulary),
                "parameters": sum(weights.numel() for weights in captions.parameters()),
                "batches": now.batches,
                "best_batch": now.best_batch,
                "dev": round(now.best, 4),
                "loss": round(now.loss[-1][1], 6),
                "threshold": now.threshold,
            },
        )
        log.info(
            "entail: %s, dev accuracy %.2f %% at batch %d of %d",
            *(settings.energy, now.best, now.best_batch, now.batches),
        )
        stack.callback(checkpoint.done)
        return stack.pop_all().close  # until it is called, no other process takes the checkpoint
