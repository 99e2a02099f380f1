"""Reads all metrics and curves, the best answers to each query, the score of each sentence pair, the resized pictures
and the encoder; writes one page, its drawings as files, and ``metrics/summary.json``.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sightword.vse.page.settings import ReportSettings

log = logging.getLogger(__name__)

SETTINGS = ReportSettings


def work(settings: ReportSettings) -> None:
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
    made = page.write(files, settings, Path("report/index.html"), Path("report/plots"))
    write_json("metrics/summary.json", rounded(made.summary))
    for note in made.notes:
        log.warning("report: %s", note)
    log.info("report: report/index.html (%d kB, %d pictures)", made.size // 1000, made.pictures)
    log.info("report: `sightword search models/encoder --serve` searches the pictures, --collection FOLDER others")
