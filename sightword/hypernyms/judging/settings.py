"""The section ``evaluate`` of ``hypernyms/params.yaml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sightword.settings import Settings


class HypernymsSettings(Settings):
    """How predicted hypernyms are judged, and what the page shows."""

    split: Literal["dev", "test"] = "test"
    """The split that is scored; the threshold is always that of dev."""
    mistakes: int = Field(50, ge=0)
    """Wrong pairs that are listed, the most certain first."""
    title: str = "Hypernyms"
    """The title of the page."""
    published: bool = True
    """Show published rows, where the split follows their protocol."""
