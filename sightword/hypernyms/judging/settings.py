"""The section ``evaluate`` of ``hypernyms/params.yaml``."""

from __future__ import annotations

from typing import Literal

from sightword.settings import Settings


class HypernymsSettings(Settings):
    """How predicted hypernyms are judged, and what the page shows."""

    split: Literal["dev", "test"] = "test"
    """The split that is scored; the threshold is always that of dev."""
    title: str = "Hypernyms"
    """The title of the page."""
