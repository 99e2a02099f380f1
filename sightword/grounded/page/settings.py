"""The section ``report`` of ``grounded/params.yaml``."""

from __future__ import annotations

from pydantic import Field

from sightword.settings import Settings


class GroundedSettings(Settings):
    """How the scenarios are compared, and what the page shows."""

    title: str = "The grounded space"
    """The title of the page."""
    baseline: str = "t"
    """The scenario that the others are compared with, one of ``train.scenarios``; the first one that runs, if this one
    does not."""
    resamples: int = Field(default=1000, ge=100)
    """Resamples of the sentence pairs, for intervals and tests of relatedness."""
