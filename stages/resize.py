"""Reads the pictures and ``data/corpus/images.parquet``; writes ``data/resized/``: shards and ``rejects.parquet``."""

from __future__ import annotations

import logging
from pathlib import Path

from sightword.images.settings import ResizeSettings

log = logging.getLogger(__name__)

SETTINGS = ResizeSettings

IMAGES = Path("data/corpus/images.parquet")
RESIZED = Path("data/resized")


def work(settings: ResizeSettings) -> None:
    """Decode the pictures, scale them, and keep them without loss in a few shards."""
    from sightword import machine
    from sightword.images.resized import corpus_sources, write_resized
    from sightword.messages import counts

    sources = corpus_sources(IMAGES)
    summary = write_resized(RESIZED, sources, settings, workers=machine.current().workers, progress=True)
    if all(source.path is None for source in sources):
        log.info("resize: the corpus came without pictures, so the %d shards are empty", settings.shards)
    rejected = counts({"rejected": len(summary.rejects)}, before="; ")
    log.info("resize: %d pictures in %d shards%s", summary.pictures, settings.shards, rejected)
