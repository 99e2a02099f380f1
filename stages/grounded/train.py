"""The stage train: reads the text, the encoder T, captions and features; trains one scenario with one seed, and writes
its encoder, the curves, and a few numbers.

A half-done run lives in the folder that ``SIGHTWORD_SCRATCH`` names, so that a killed run resumes where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sightword.grounded.training.settings import OWN_STARTS, GroundSettings

log = logging.getLogger(__name__)

SETTINGS = GroundSettings
CHECKPOINT = True
"""Whether a killed run goes on where it was."""
OPTIONS: dict[str, dict[str, Any]] = {
    "--scenario": {"required": True, "help": "the name of a scenario in train.scenarios"},
    "--seed": {"required": True, "type": int, "help": "the seed, one of train.seeds"},
}

TEXT = Path("data/text")
TEXTUAL = Path("models/skipthought")
WORD_VECTORS = Path("data/raw/word_vectors")


def work(settings: GroundSettings, *, scenario: str, seed: int, inputs: str = "") -> Callable[[], object]:
    """Train an encoder on captions and pictures beside the text, by one scenario with one seed."""
    from sightword import machine
    from sightword.captions.table import check_vocabulary, read_captions
    from sightword.compute import devices
    from sightword.encoder.derived import read_start, report_unknown
    from sightword.errors import ParamsError
    from sightword.features.tables.origin import describe
    from sightword.features.tables.pairs import pair
    from sightword.features.tables.table import read_features
    from sightword.grounded.training.batches import described
    from sightword.grounded.training.scenario import ground, read_textual
    from sightword.io.files import atomic_folder, write_json
    from sightword.text.storage import Text
    from sightword.training.checkpoint import open_checkpoint
    from sightword.training.curves import write_curves

    try:
        chosen = settings.scenario(scenario)
    except ValueError as error:
        raise ParamsError(str(error), where="train") from None
    if seed not in settings.seeds:
        expected = f"one of train.seeds ({', '.join(map(str, settings.seeds))})"
        raise ParamsError(f"the seed is {seed}", expected=expected)
    if chosen.expansion:
        chosen = chosen.model_copy(update={"expansion": str(WORD_VECTORS / chosen.expansion)})
    text = Text.open(TEXT)
    captions, features = read_captions(TEXT / "captions.parquet"), read_features("data/features/features.h5")
    check_vocabulary(captions, text.vocabulary, where=TEXT / "captions.parquet")
    here = machine.current()
    device = devices.use(here, deterministic=chosen.deterministic)
    textual = read_textual(TEXTUAL, text)
    start = None if chosen.start in OWN_STARTS else read_start(settings.encoders, chosen.start, others=OWN_STARTS)
    own = None if start is None else start.vocabulary
    training = described(pair(features, captions, "train"), text.max_tokens, own)
    dev = described(pair(features, captions, "dev"), text.max_tokens, own)
    if start is not None:
        report_unknown(chosen.start, start, training.ids)
    origin = features.attributes
    log.info(
        "train: %s, seed %d: %d pictures (%d copies of others), %d captions (%d long ones left out), %d features (%s)",
        *(scenario, seed, len(training.features), training.copies, len(training.ids), training.left_out),
        *(training.features.shape[1], describe(origin)),
    )
    result = f"{scenario}-{seed}"
    parameters = {"scenario": chosen.model_dump(), "seed": seed}
    with open_checkpoint(
        here.scratch, "grounded", inputs=inputs, device=device.type, parameters=parameters
    ) as checkpoint:
        notes = {
            "trained_on": "text and captions",
            "scenario": scenario,
            "seed": seed,
            "training": chosen.model_dump(),
            "text": textual.settings.noted(),
            "features": {key: value for key, value in origin.items() if key != "checksum"},
        }
        found = ground(
            chosen, seed, textual, training, dev, device=device, start=start, notes=notes, checkpoint=checkpoint,
            bar=True,
        )  # fmt: skip
        encoder, now = found.encoder, found.progress
        with atomic_folder(f"models/grounded/{result}") as folder:
            encoder.save(folder)
        with atomic_folder(f"plots/grounded/{result}") as folder:
            write_curves(folder, now)
        write_json(
            f"metrics/grounded/{result}/train.json",
            {
                "scenario": scenario,
                "seed": seed,
                "start": chosen.start,
                "judged": encoder.default,
                "spaces": {space: encoder.width_of(space) for space in encoder.spaces},
                "pictures": len(training.features),
                "copies": training.copies,
                "single_caption": training.single,
                "captions": len(training.ids),
                "long_captions": training.left_out,
                "features": describe(origin),
                "device": device.type,
                "batches": now.steps,
                "loss": {part: round(curve[-1][1], 6) for part, curve in now.curves["loss"].items()},
                "dev": {part: round(curve[-1][1], 6) for part, curve in now.curves["dev"].items()},
                **found.facts,
            },
        )
        losses = "".join(_last(now.curves["loss"])) or "nothing is trained"
        log.info("train: %s, %d batches, %s", result, now.steps, losses)
        return checkpoint.finished()


def _last(curves: dict[str, list[tuple[int, float]]]) -> list[str]:
    return [f"{part} {curve[-1][1]:.4f} " for part, curve in curves.items()]
