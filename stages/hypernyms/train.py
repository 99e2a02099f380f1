"""The stage train: reads the taxonomy and its pairs; writes the vectors with the best score on dev, the curves, and a
few numbers.

A half-done run lives in the folder that ``SIGHTWORD_SCRATCH`` names, so that a killed run resumes where it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from sightword.hypernyms.training.settings import EmbedSettings

log = logging.getLogger(__name__)

SETTINGS = EmbedSettings

TAXONOMY = Path("data/hypernyms/taxonomy")


def work(settings: EmbedSettings) -> Callable[[], object]:
    """Train embeddings of all concepts."""
    import numpy as np

    import sightword.hypernyms
    from sightword import machine
    from sightword.hypernyms.data.storage import read_prepared
    from sightword.hypernyms.training.concepts import Concepts
    from sightword.hypernyms.training.task import train
    from sightword.io.files import atomic_folder, canonical_json, sha256_file, write_json, write_tsv
    from sightword.training.scratch import take_folder

    prepared = read_prepared(TAXONOMY)
    taxonomy, pairs = prepared.taxonomy, prepared.pairs
    code = [sha256_file(path) for path in sorted(Path(sightword.hypernyms.__path__[0]).rglob("*.py"))]
    inputs = [settings.model_dump(), sha256_file(TAXONOMY / "pairs.parquet"), len(taxonomy.names), code, np.__version__]
    name = hashlib.sha256(canonical_json(inputs).encode()).hexdigest()[:32]
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(take_folder(machine.current().scratch / "embed", name))
        found = train(
            settings, pairs["train"], pairs["dev"], len(taxonomy.names),
            checkpoint=scratch / "state.safetensors", progress=True,
        )  # fmt: skip
        now = found.progress
        kept = {key: getattr(settings, key) for key in ("energy", "dimension", "margin", "slack")}
        concepts = Concepts(taxonomy.names, taxonomy.words, found.vectors, found.weights, now.threshold, kept)
        with atomic_folder("models/hypernyms/concepts") as folder:
            concepts.save(folder)
        with atomic_folder("plots/hypernyms/train") as folder:
            write_tsv(folder / "loss.tsv", ("batch", "loss"), now.loss)
            write_tsv(folder / "dev.tsv", ("batch", settings.criterion), now.dev)
        write_json(
            "metrics/hypernyms/train.json",
            {
                "energy": settings.energy,
                "concepts": len(taxonomy.names),
                "parameters": found.vectors.size + sum(one.size for one in found.weights.values()),
                "pairs": len(pairs["train"].labels) - found.left_out,
                "left_out": found.left_out,
                "batches": now.batches,
                "best_batch": now.best_batch,
                "criterion": settings.criterion,
                "dev": round(now.best, 4),
                "loss": round(now.loss[-1][1], 6),
                "threshold": now.threshold,
            },
        )
        log.info(
            "train: %s, dev %s %.2f %% at batch %d of %d",
            *(settings.energy, settings.criterion, now.best, now.best_batch, now.batches),
        )
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        return stack.pop_all().close  # until it is called, no other process takes the checkpoint
