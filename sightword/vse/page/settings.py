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
    published: bool = True
    """Show published rows next to this run's."""
