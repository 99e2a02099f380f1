"""Reads ``data/resized/``, ``data/corpus/images.parquet`` and ``features.inputs``; writes ``data/features/``."""

from __future__ import annotations

import logging
from pathlib import Path

from pipeline.features.settings import FeaturesSettings
from stages.runner import run

log = logging.getLogger(__name__)

IMAGES = Path("data/corpus/images.parquet")
RESIZED = Path("data/resized")
FEATURES = Path("data/features")


def work(settings: FeaturesSettings) -> None:
    """Features of each picture from an image network, or precomputed ones, to HDF5."""
    from pipeline.files import atomic_folder, read_table

    image_ids: list[str] = read_table(IMAGES, ["image_id"], todo="Run the stage corpus first.")["image_id"].to_pylist()
    with atomic_folder(FEATURES) as folder:
        if settings.source == "precomputed":
            _convert(folder / "features.h5", image_ids, settings)
        else:
            _extract(folder / "features.h5", image_ids, settings)


def _convert(path: Path, image_ids: list[str], settings: FeaturesSettings) -> None:
    from pipeline.features.precomputed import convert

    others = convert(path, image_ids, settings)
    log.info(
        "features: %d pictures, 0 computed, %d precomputed in %s (%d rows of other pictures left out)",
        len(image_ids),
        len(image_ids),
        settings.precomputed,
        others,
    )


def _extract(path: Path, image_ids: list[str], settings: FeaturesSettings) -> None:
    from pipeline import devices, machine
    from pipeline.features.extraction import extract_resized

    here = machine.current()
    device = devices.use(here)
    summary = extract_resized(path, image_ids, RESIZED, settings, device=device, workers=here.workers, progress=True)
    clock = summary.clock
    log.info(
        "features: %s on %s: read %.1f s, infer %.1f s, %.1f pictures a second",
        settings.backbone,
        device,
        clock.read,
        clock.infer,
        clock.pictures / max(clock.read + clock.infer, 1e-9),
    )
    log.info("features: %d pictures, %d computed, %d rejected", summary.pictures, summary.computed, summary.rejected)


if __name__ == "__main__":
    run("features", FeaturesSettings, work)
