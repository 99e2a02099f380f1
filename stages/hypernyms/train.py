"""The stage train: reads the taxonomy and its pairs; writes the vectors with the best score on dev, the curves, and a
few numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from sightword.hypernyms.settings import EmbedSettings

log = logging.getLogger(__name__)

SETTINGS = EmbedSettings
CHECKPOINT = True

TAXONOMY = Path("data/hypernyms/taxonomy")


def work(settings: EmbedSettings, *, inputs: str = "") -> Callable[[], object]:
    """Train embeddings of all concepts."""
    from sightword import machine
    from sightword.hypernyms.data.pairs import read_prepared
    from sightword.hypernyms.training.concepts import Concepts
    from sightword.hypernyms.training.task import train
    from sightword.io.files import atomic_folder, write_json
    from sightword.training.checkpoint import open_checkpoint
    from sightword.training.engine import write_curves

    taxonomy, pairs, _ = read_prepared(TAXONOMY)
    scratch, parameters = machine.current().scratch, settings.model_dump()
    with open_checkpoint(scratch, "hypernyms", inputs=inputs, device="cpu", parameters=parameters) as checkpoint:
        trained = train(
            settings, pairs["train"], pairs["dev"], len(taxonomy.names), checkpoint=checkpoint, progress=True
        )  # fmt: skip
        now, threshold = trained.progress, trained.progress.notes["threshold"]
        kept = {key: parameters[key] for key in ("energy", "dimension", "margin", "slack")}
        concepts = Concepts(taxonomy.names, taxonomy.words, trained.vectors, trained.weights, threshold, kept)
        with atomic_folder("models/hypernyms/concepts") as folder:
            concepts.save(folder)
        with atomic_folder("plots/hypernyms/train") as folder:
            write_curves(folder, now)
        numbers = {
            "energy": settings.energy, "concepts": len(taxonomy.names),
            "parameters": trained.vectors.size + sum(one.size for one in trained.weights.values()),
            "pairs": len(pairs["train"].labels) - trained.left_out, "left_out": trained.left_out,
            "batches": now.steps, "best_batch": now.best_step, "criterion": settings.criterion,
            "dev": round(now.best, 4), "loss": round(now.last("loss", "loss"), 6), "threshold": threshold,
        }  # fmt: skip
        write_json("metrics/hypernyms/train.json", numbers)
        log.info(
            "train: %s, dev %s %.2f %% at batch %d of %d",
            *(settings.energy, settings.criterion, now.best, now.best_step, now.steps),
        )
        return checkpoint.finished()
