"""The section ``report`` of ``params.yaml``."""

from __future__ import annotations

from pydantic import Field

from sightword.settings import Settings


class ReportSettings(Settings):
    """The section ``report``: how the page looks; nothing here changes a number."""

    title: str = Field(default="Sightword", min_length=1, max_length=200)
    """The page's title."""
    gallery: int = Field(default=10, ge=0, le=200)
    """How many captions, and how many pictures, the gallery shows with their answers; 0 leaves it out."""
    thumbnail: int = Field(default=128, ge=16, le=1024)
    """Longest side of a small picture, in pixels; the pictures asked about are shown twice as large."""
    published: bool = True
    """Show published rows next to this run's."""
    points: int = Field(default=3000, ge=0, le=20_000)
    """How many sentence pairs the scatter plots draw at most; 0 leaves them out."""
    worst: int = Field(default=20, ge=0, le=500)
    """The number of listed pairs with the largest disagreement between people and the encoder."""
