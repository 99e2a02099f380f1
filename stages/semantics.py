"""Evaluates the encoder by SentEval's protocol: reads the encoder, the STS, SICK and transfer files and the training
captions; writes ``metrics/semantics.json``, ``plots/semantics/`` and ``data/semantics/``.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

from sightword.evaluation.ledger import Enter, alone, hash_of, scored
from sightword.evaluation.semantics.settings import SemanticsSettings

log = logging.getLogger(__name__)

SETTINGS = SemanticsSettings
SCORES = True
"""Whether scorings are entered in the ledger."""

ENCODER = Path("models/encoder")
CAPTIONS = Path("data/captions/captions.parquet")
METRICS = Path("metrics/semantics.json")
PLOTS = Path("plots/semantics")
PAIRS = Path("data/semantics")
WORST_PAIRS = 50
"""Pairs that people and the encoder rank most differently."""


def work(settings: SemanticsSettings, *, enter: Enter = alone) -> None:
    """Score the chosen encoder by SentEval's tasks."""
    from sightword import machine
    from sightword.captions.table import learned, read_captions
    from sightword.compute import devices
    from sightword.encoder.arguments import LONGEST
    from sightword.encoder.derived import untrained
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.evaluation.semantics.evaluation import evaluate
    from sightword.evaluation.semantics.relatedness import TfIdf
    from sightword.settings import BESIDE

    device = devices.use(machine.current())
    captions = read_captions(CAPTIONS, withheld=[BESIDE])
    encoder = SentenceEncoder.load(ENCODER, device=device)
    training = captions.split("train").texts
    seen = learned(captions, encoder.all_notes)

    def encoding(encoder: SentenceEncoder) -> Any:
        return partial(encoder.encode, batch_size=settings.batch_size, max_length=LONGEST)

    controls: dict[str, Any] = {
        name: TfIdf(training, progress=True) if name == "tfidf" else encoding(untrained(encoder, settings.seed))
        for name in settings.controls
    }
    evaluated = evaluate(
        encoding(encoder), settings.tasks, settings.data, seen, trained_head=settings.trained_head, seed=settings.seed,
        kfold=settings.kfold, missing=settings.missing, controls=controls, progress=True,
    )  # fmt: skip
    encoder_hash = hash_of(ENCODER)
    enter([row for task, rows in evaluated.tested.items() for row in scored("test", task, rows, encoder_hash)])
    _write(evaluated)


def _write(evaluated: Any) -> None:
    """Write the tables, the curves and the numbers, and log what was left out."""
    from sightword.evaluation.semantics import tables
    from sightword.evaluation.semantics.results import write_pairs
    from sightword.io.files import atomic_folder, write_json, write_text
    from sightword.messages import counts
    from sightword.statistics.inference import rounded

    judged = evaluated.judged
    with atomic_folder(PAIRS) as folder:
        write_pairs(folder / "pairs.parquet", judged)
        worst = tables.worst(judged, WORST_PAIRS)
        write_text(folder / "worst.tsv", tables.disagreement_tsv(worst))
    with atomic_folder(PLOTS) as folder:
        write_text(folder / "systems.tsv", tables.system_tsv(judged))
        write_text(folder / "breakdown.tsv", tables.bin_tsv(tables.bins(judged)))
    write_json(METRICS, rounded(evaluated.metrics))
    for task, reason in evaluated.metrics.get("skipped", {}).items():
        log.warning("%s left out: %s", task, reason)
    for row in evaluated.judged:
        if "undefined" in row.entry:
            log.warning("%s %s: %s", row.task, row.subtask, row.entry["undefined"])

    plain = [row.entry["pearson"] for row in evaluated.judged if row.subtask != tables.TRAINED]
    scores = [score for score in plain if score is not None]
    log.info(
        "semantics: %d tasks%s%s",
        len(evaluated.metrics.keys() - {"skipped", "controls"}),
        f", mean Pearson {sum(scores) / len(scores):.3f}" if scores else "",
        counts({"accuracies": len(evaluated.accuracies)}, before=", "),
    )
