"""The settings of the embedded sample, whose pictures are drawn."""

from __future__ import annotations

from typing import ClassVar, Literal

from sightword.corpus.sample.world import FILE
from sightword.corpus.settings import CorpusSettings


class Sample(CorpusSettings):
    """Scenes drawn from a description; the stage draws them, and has nothing to read."""

    format: Literal["sample"] = "sample"
    """Scenes drawn from a description."""
    path: str = "data/raw/sample"
    """The folder with the description ``scenes.yaml``."""
    pictures: str = "data/corpus/pictures"
    """The folder that the stage draws the pictures into."""
    draws_pictures: ClassVar[bool] = True

    def files(self) -> list[str]:
        """Return the description."""
        return [FILE]
