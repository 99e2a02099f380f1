"""The stage evaluate: reads the encoder of one scenario and seed, the features, the captions, SentEval's files and the
ratings; writes the encoder's scores, and the tables that compare encoders pair by pair.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightword.evaluation.ledger import PICTURES, Enter, alone, hash_of, scored
from sightword.grounded.judging.settings import JudgeSettings

if TYPE_CHECKING:
    from sightword.captions.table import CaptionTable
    from sightword.evaluation.ledger import Scoring
    from sightword.grounded.judging.measuring import Material

log = logging.getLogger(__name__)

SETTINGS = JudgeSettings
SCORES = True
OPTIONS: dict[str, dict[str, Any]] = {
    "--scenario": {"required": True, "help": "the name of the scenario, as in train.scenarios"},
    "--seed": {"required": True, "type": int, "help": "the seed of its training run, as in train.seeds"},
}

MODELS = Path("models/grounded")
CAPTIONS = Path("data/corpus/captions.parquet")
FEATURES = Path("data/features/features.h5")
RATINGS = Path("data/raw/ratings")


def work(settings: JudgeSettings, *, scenario: str, seed: int, enter: Enter = alone) -> None:
    """Judge one encoder in all its spaces."""
    from sightword import machine
    from sightword.captions.table import read_texts
    from sightword.compute import devices
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.evaluation.semantics.results import write_pairs
    from sightword.features.tables.pairs import pair
    from sightword.features.tables.table import read_features
    from sightword.grounded.judging.measuring import FORMAT, measure, read
    from sightword.io.files import atomic_folder, write_json, write_table
    from sightword.statistics.inference import rounded

    run = f"{scenario}-{seed}"
    if settings.ratings:
        settings = settings.model_copy(update={"ratings": str(RATINGS / settings.ratings)})
    device = devices.use(machine.current())
    captions, features = read_texts(CAPTIONS), read_features(FEATURES)
    splits = {str(split): pair(features, captions, split) for split in settings.splits}
    material = read(settings, splits, captions.split("train").texts)
    for task, reason in material.skipped.items():
        log.warning("%s left out: %s", task, reason)
    encoder = SentenceEncoder.load(MODELS / run, device=device)
    measured = measure(encoder, material, settings)
    enter(_entries(material, captions, hash_of(MODELS / run)))
    for row in (row for row in measured.judged if "undefined" in row.entry):
        log.warning("%s %s: %s", row.task, row.subtask, row.entry["undefined"])
    metrics = rounded({"scenario": scenario, "seed": seed} | measured.metrics)
    with atomic_folder(Path("data/grounded") / run) as folder:
        write_pairs(folder / "pairs.parquet", measured.judged)
        for name, table in measured.tables.items():
            write_table(folder / f"{name}.parquet", table)
        FORMAT.write(folder, metrics, [f"{name}.parquet" for name in ("pairs", *measured.tables)])
    write_json(Path("metrics/grounded") / run / FORMAT.description, metrics)
    own = measured.metrics["spaces"][encoder.default]["structure"][settings.splits[0]]
    log.info(
        "evaluate %s, space %s: mNNO %.1f, rho_vis %.1f, C_inter %.1f %% on %s",
        *(run, encoder.default, *(100 * own[name] for name in ("mnno", "rho_vis", "c_inter")), settings.splits[0]),
    )


def _entries(material: Material, captions: CaptionTable, encoder: str) -> list[Scoring]:
    """Return the entries of the ledger: the encoder on pictures, pairs and tasks."""
    from sightword.evaluation.semantics.datasets import Rows, rated, tested

    rows: dict[tuple[str, str], Rows] = {}
    for split in material.splits:
        named = captions.split(split)
        rows[split, PICTURES] = list(zip(named.image_ids, named.texts, strict=True))
    for part in material.parts:
        rows.setdefault(("test", part.task), []).extend(rated(part.pairs))
    rows |= {("test", task.name): tested(task) for task in material.tasks}
    return [one for (split, of), tried in rows.items() for one in scored(split, of, tried, encoder)]
