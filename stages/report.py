"""Reads all metrics and curves, the best answers to each query, the score of each sentence pair, the resized pictures
and the encoder; writes one page, its drawings as files, and ``metrics/summary.json``.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sightword.captions.settings import CaptionsSettings
from sightword.features.settings import FeaturesSettings
from sightword.images.settings import ResizeSettings
from sightword.report.departures import departures_of
from sightword.settings import Settings
from sightword.vse.page.settings import ReportSettings
from sightword.vse.selection.settings import SelectSettings
from sightword.vse.training.settings import TrainSettings

log = logging.getLogger(__name__)

SETTINGS = ReportSettings
MADE_BY: dict[str, type[Settings]] = {
    "resize": ResizeSettings, "features": FeaturesSettings, "captions": CaptionsSettings, "train": TrainSettings,
    "select": SelectSettings,
}  # fmt: skip
ALSO = tuple(MADE_BY)


def work(settings: ReportSettings, **made_by: Settings) -> None:
    """Write one page with all tables, curves and a gallery."""
    from sightword.io.files import write_json
    from sightword.report.inputs import RunFiles
    from sightword.statistics.inference import rounded
    from sightword.vse.page import page

    files = RunFiles(
        dropped=Path("data/corpus/dropped.parquet"),
        captions=Path("data/captions/captions.parquet"),
        resized=Path("data/resized"),
        top=Path("data/retrieval/top.parquet"),
        pairs=Path("data/semantics"),
        metrics=Path("metrics"),
        encoder=Path("models/encoder"),
        plots=Path("plots"),
    )
    made = page.write(files, settings, Path("report/index.html"), Path("report/plots"), departures_of(made_by, MADE_BY))
    write_json("metrics/summary.json", rounded(made.summary))
    for note in made.notes:
        log.warning("report: %s", note)
    log.info("report: report/index.html (%d kB, %d pictures)", made.size // 1000, made.pictures)
    log.info("report: `sightword search models/encoder --serve` searches the pictures, --collection FOLDER others")
