"""The stage skipthought: reads the ordered text; writes the trained encoder with its decoders, the curves, and a few
numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from sightword.grounded.skipthought.settings import SkipthoughtSettings

log = logging.getLogger(__name__)

SETTINGS = SkipthoughtSettings
CHECKPOINT = True

TEXT = Path("data/text")
MODEL = Path("models/skipthought")


def work(settings: SkipthoughtSettings, *, inputs: str = "") -> Callable[[], object]:
    """Train an encoder on ordered text: SkipThought, or neighbouring sentences told apart."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.grounded.skipthought.network import save
    from sightword.grounded.skipthought.task import examples, train
    from sightword.io.files import atomic_folder, write_json
    from sightword.text.storage import Text
    from sightword.training.checkpoint import open_checkpoint
    from sightword.training.engine import write_curves

    text, here = Text.open(TEXT), machine.current()
    device = devices.use(here)
    count = len(examples(text, settings))
    kind = "pairs" if settings.objective == "infonce" else "triples"
    log.info("skipthought: %d %s, %d tokens in the vocabulary", count, kind, len(text.vocabulary))
    saved = open_checkpoint(
        here.scratch, "skipthought", inputs=inputs, device=device.type, parameters=settings.model_dump()
    )
    with saved as checkpoint:
        run = train(settings, text, device=device, checkpoint=checkpoint, progress=True)
        result = {"objective": settings.objective, "device": device.type, kind: count, **run.numbers(count)}
        with atomic_folder(MODEL) as folder:
            save(folder, run.network, text.vocabulary, result=result)
        with atomic_folder("plots/grounded/skipthought") as folder:
            write_curves(folder, run.progress)
        write_json("metrics/grounded/skipthought.json", result)
        log.info(
            "skipthought: %s, %d batches of %d, held-out perplexity %s",
            *(settings.objective, run.progress.steps, settings.batch, result["held_out_perplexity"]),
        )
        return checkpoint.finished()
