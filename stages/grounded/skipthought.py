"""The stage skipthought: reads the ordered text; writes the trained encoder with its decoders, the curves, and a few
numbers.

A half-done run lives in the folder that ``SIGHTWORD_SCRATCH`` names, so that a killed run resumes where it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

from sightword.grounded.skipthought.settings import SkipthoughtSettings

log = logging.getLogger(__name__)

SETTINGS = SkipthoughtSettings

TEXT = Path("data/text")
MODEL = Path("models/skipthought")


def work(settings: SkipthoughtSettings) -> Callable[[], object]:
    """Train an encoder on ordered text: SkipThought, or neighbouring sentences told apart."""
    import numpy as np
    import torch

    import sightword
    from sightword import machine
    from sightword.compute import devices
    from sightword.grounded.skipthought.batches import examples
    from sightword.grounded.skipthought.saved import save
    from sightword.grounded.skipthought.task import train
    from sightword.io.files import atomic_folder, canonical_json, sha256_file, write_json, write_tsv
    from sightword.text.storage import Text
    from sightword.training.checkpoint import Checkpoint
    from sightword.training.code_hash import code_hash
    from sightword.training.scratch import take_folder

    text = Text.open(TEXT)
    here = machine.current()
    device = devices.use(here, deterministic=settings.deterministic)
    count = len(examples(text, settings))
    kind = "pairs" if settings.objective == "infonce" else "triples"
    log.info("skipthought: %d %s, %d tokens in the vocabulary", count, kind, len(text.vocabulary))
    rooms = (Path(sightword.__path__[0], room) for room in ("grounded/skipthought", "text"))
    code = [sha256_file(path) for room in rooms for path in sorted(room.rglob("*.py"))]
    inputs = [
        *(settings.model_dump(), text.sha256, device.type, here.threads),
        *(code, code_hash(), torch.__version__, np.__version__),
    ]
    name = hashlib.sha256(canonical_json(inputs).encode()).hexdigest()[:32]
    with contextlib.ExitStack() as stack:
        checkpoint = Checkpoint(stack.enter_context(take_folder(here.scratch / "skipthought", name)))
        network, now = train(settings, text, device=device, checkpoint=checkpoint, progress=True)
        result = {
            "objective": settings.objective,
            "device": device.type,
            kind: count,
            "tokens": len(text.vocabulary),
            "parameters": sum(weights.numel() for weights in network.parameters()),
            "steps": now.steps,
            "epochs": round(now.steps * settings.batch / count, 4),
            "loss": round(now.loss[-1][1], 6) if now.loss else None,
            "held_out_loss": round(now.held_out[-1][1], 6) if now.held_out else None,
            "held_out_perplexity": None if now.perplexity is None else round(now.perplexity, 4),
        }
        with atomic_folder(MODEL) as folder:
            save(folder, network, text.vocabulary, result=result)
        with atomic_folder("plots/grounded/skipthought") as folder:
            write_tsv(folder / "loss.tsv", ("batch", "loss"), now.loss)
            write_tsv(folder / "held_out.tsv", ("batch", "loss"), now.held_out)
        write_json("metrics/grounded/skipthought.json", result)
        log.info(
            "skipthought: %s, %d batches of %d, held-out perplexity %s",
            *(settings.objective, now.steps, settings.batch, result["held_out_perplexity"]),
        )
        stack.callback(checkpoint.done)
        return stack.pop_all().close  # until it is called, no other process takes the checkpoint
