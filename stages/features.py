"""Reads ``data/resized/``, ``data/corpus/images.parquet`` and ``features.inputs``; writes ``data/features/``.

Computed features are kept in the feature store of ``SIGHTWORD_STORE`` and reused from there.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sightword.features.settings import FeaturesSettings

log = logging.getLogger(__name__)

SETTINGS = FeaturesSettings

IMAGES = Path("data/corpus/images.parquet")
RESIZED = Path("data/resized")
FEATURES = Path("data/features")


def work(settings: FeaturesSettings) -> dict[str, str]:
    """Compute each picture's features, or convert precomputed ones, to HDF5."""
    import h5py

    from sightword.io.files import atomic_folder, read_table

    wanted = ["image_id", *(["split", "position"] if settings.source == "precomputed" else [])]
    table = read_table(IMAGES, wanted, todo="Run the stage corpus first.")
    image_ids: list[str] = table["image_id"].to_pylist()
    with atomic_folder(FEATURES) as folder:
        path, notes = folder / "features.h5", dict[str, str]()
        if settings.source == "precomputed":
            columns = (table.sort_by("position")[name].to_pylist() for name in ("image_id", "split"))
            _convert(path, image_ids, settings, list(zip(*columns, strict=True)))
        else:
            notes = _extract(path, image_ids, settings)
        with h5py.File(path) as file:
            names = ("backbone", "weights", "weights_sha256", "network_sha256", "origin")
            return notes | {name: str(file.attrs[name]) for name in names if name in file.attrs}


def _convert(path: Path, image_ids: list[str], settings: FeaturesSettings, order: list[tuple[str, str]]) -> None:
    from sightword.features.precomputed import convert

    others = convert(path, image_ids, settings, order)
    left_out = f" ({others} rows of other pictures left out)" if others else ""
    names = settings.precomputed if isinstance(settings.precomputed, str) else " + ".join(settings.precomputed)
    log.info("features: %d pictures, precomputed in %s%s", len(image_ids), names, left_out)


def _extract(path: Path, image_ids: list[str], settings: FeaturesSettings) -> dict[str, str]:
    """Write the features, and return a note for the facts of the run."""
    import functools
    from dataclasses import replace

    from sightword import machine
    from sightword.compute import devices
    from sightword.features import distributed
    from sightword.features.compute import ResizedCorpus
    from sightword.messages import counts
    from sightword.storage.store import Store

    here = machine.current()
    store, ray, device = Store(here.store), here.engine == "ray", devices.use(here)
    worker = replace(here, device=device.type)
    cluster = functools.partial(distributed.compute, worker, settings, RESIZED, store) if ray else None
    corpus = ResizedCorpus(
        image_ids, RESIZED, settings, store=store, device=device, workers=here.workers, progress=True, cluster=cluster
    )
    where = f"{'workers of Ray, ' * ray}{devices.describe(device)}"
    log.info("features: device: %s; feature store: %s (key %s)", where, here.store, corpus.kind[:8])
    made = corpus.write(path)
    if made.clock.pictures:
        log.info(
            "features: %.1f s for %d pictures, %.1f a second (read %.1f s, infer %.1f s, write %.1f s, side by side)",
            *(made.clock.wall, made.clock.pictures, made.clock.pictures / made.clock.wall),
            *(made.clock.read, made.clock.infer, made.clock.write),
        )
    numbers = {"computed": made.computed, "from store": made.stored, "copies": made.copies, "rejected": made.rejected}
    log.info("features: %d pictures: %s", made.pictures, counts(numbers) or "nothing to do")
    return {"stored": f"{made.stored} of {made.stored + made.computed} features from the store"}
