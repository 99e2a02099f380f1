"""Reads the pictures and ``data/corpus/images.parquet``; writes ``data/resized/``: shards and ``rejects.parquet``."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from sightword.images.settings import ResizeSettings

log = logging.getLogger(__name__)

SETTINGS = ResizeSettings

IMAGES = Path("data/corpus/images.parquet")
RESIZED = Path("data/resized")


def work(settings: ResizeSettings) -> None:
    """Decode the pictures, scale them, and keep them without loss in a few shards."""
    from sightword import machine
    from sightword.cluster.nodes import Requirements
    from sightword.cluster.opening import opened
    from sightword.cluster.workers import Size
    from sightword.images.resized import corpus_sources, write_resized
    from sightword.messages import counts

    sources, here = corpus_sources(IMAGES), machine.current()
    files = [source.path for source in sources if source.path]
    with opened(here, Size()) if here.engine == "ray" and files else nullcontext() as cluster:
        mapped = partial(cluster.ordered_map, requirements=Requirements.here(files)) if cluster else None
        summary = write_resized(RESIZED, sources, settings, workers=here.workers, progress=True, mapped=mapped)
    if not files:
        log.info("resize: the corpus came without pictures, so the %d shards are empty", settings.shards)
    rejected = counts({"rejected": len(summary.rejects)}, before="; ")
    log.info("resize: %d pictures in %d shards%s", summary.pictures, settings.shards, rejected)
