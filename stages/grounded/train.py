"""The stage train: reads the text, the encoder T, captions and features; trains one scenario with one seed, and writes
its encoder, the curves, and a few numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightword.grounded.training.settings import OWN_STARTS, GroundSettings

if TYPE_CHECKING:
    from sightword.grounded.training.scenario import Grounded, Inputs
    from sightword.grounded.training.settings import Scenario
    from sightword.grounded.training.task import Described

log = logging.getLogger(__name__)

SETTINGS = GroundSettings
CHECKPOINT = True
OPTIONS: dict[str, dict[str, Any]] = {
    "--scenario": {"required": True, "help": "the name of a scenario in train.scenarios"},
    "--seed": {"required": True, "type": int, "help": "the seed, one of train.seeds"},
}

TEXT = Path("data/text")
TEXTUAL = Path("models/skipthought")


def work(settings: GroundSettings, *, scenario: str, seed: int, inputs: str = "") -> Callable[[], object]:
    """Train an encoder on captions and pictures beside the text, by one scenario with one seed."""
    from sightword import machine
    from sightword.compute import devices
    from sightword.errors import ParamsError
    from sightword.grounded.training.scenario import ground
    from sightword.training.checkpoint import open_checkpoint

    try:
        chosen = settings.scenario(scenario)
    except ValueError as error:
        raise ParamsError(str(error), where="train") from None
    if seed not in settings.seeds:
        expected = f"one of train.seeds ({', '.join(map(str, settings.seeds))})"
        raise ParamsError(f"the seed is {seed}", expected=expected)
    here = machine.current()
    device = devices.use(here)
    given, origin = _read(settings, chosen)
    log.info("train: %s, seed %d: %d pictures", scenario, seed, len(given.training.features))
    parameters = {"scenario": chosen.model_dump(), "seed": seed}
    notes = {"trained_on": "text and captions", "scenario": scenario, "seed": seed, "training": chosen.model_dump()}
    notes |= {"text": given.textual.settings.model_dump(), "features": origin["noted"]}
    run = open_checkpoint(here.scratch, "grounded", inputs=inputs, device=device.type, parameters=parameters)
    with run as checkpoint:
        grounded = ground(chosen, seed, given, device=device, notes=notes, checkpoint=checkpoint, bar=True)
        about = {"scenario": scenario, "seed": seed, "start": chosen.start, "judged": grounded.encoder.default}
        _write(grounded, about, given.training, origin["describe"], device.type)
        return checkpoint.finished()


def _read(settings: GroundSettings, chosen: Scenario) -> tuple[Inputs, dict[str, Any]]:
    """Return text, captions and pictures, and the origin of the features in words and as attributes."""
    from sightword.captions.table import check_vocabulary, read_captions
    from sightword.encoder.derived import read_start, report_unknown
    from sightword.features.tables.origin import describe
    from sightword.features.tables.pairs import pair
    from sightword.features.tables.table import read_features
    from sightword.grounded.training.scenario import Inputs, read_textual
    from sightword.grounded.training.task import described
    from sightword.text.storage import Text

    text = Text.open(TEXT)
    captions, features = read_captions(TEXT / "captions.parquet"), read_features("data/features/features.h5")
    check_vocabulary(captions, text.vocabulary, where=TEXT / "captions.parquet")
    textual = read_textual(TEXTUAL, text)
    start = None if chosen.start in OWN_STARTS else read_start(settings.encoders, chosen.start, others=OWN_STARTS)
    vocabulary = None if start is None else start.vocabulary
    training, dev = (
        described(pair(features, captions, split), text.max_tokens, vocabulary) for split in ("train", "dev")
    )
    if start is not None:
        report_unknown(chosen.start, start, training.ids)
    noted = {key: value for key, value in features.attributes.items() if key != "checksum"}
    return Inputs(textual, training, dev, start), {"describe": describe(features.attributes), "noted": noted}


def _write(grounded: Grounded, about: dict[str, Any], training: Described, features: str, device: str) -> None:
    from sightword.io.files import atomic_folder, write_json
    from sightword.training.engine import write_curves

    encoder, now, result = grounded.encoder, grounded.progress, f"{about['scenario']}-{about['seed']}"
    with atomic_folder(f"models/grounded/{result}") as folder:
        encoder.save(folder)
    with atomic_folder(f"plots/grounded/{result}") as folder:
        write_curves(folder, now)
    numbers = {
        "spaces": {space: encoder.width_of(space) for space in encoder.spaces},
        "pictures": len(training.features), "copies": training.copies, "single_caption": training.single,
        "captions": len(training.ids), "long_captions": training.left_out,
        "features": features, "device": device, "batches": now.steps,
    }  # fmt: skip
    for name in ("loss", "dev"):
        numbers[name] = {part: round(curve[-1][1], 6) for part, curve in now.curves[name].items()}
    write_json(f"metrics/grounded/{result}/train.json", about | numbers | grounded.facts)
    losses = "".join(f"{part} {curve[-1][1]:.4f} " for part, curve in now.curves["loss"].items())
    log.info("train: %s, %d batches, %s", result, now.steps, losses or "nothing is trained")
