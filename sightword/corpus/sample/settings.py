"""The settings of the embedded sample, whose pictures are drawn."""

from __future__ import annotations

from typing import ClassVar, Literal

from sightword.corpus.sample.world import FILE
from sightword.corpus.settings import CorpusSettings


class Sample(CorpusSettings):
    """Scenes drawn from a description; the stage draws them, and has nothing to read."""

    format: Literal["sample"] = "sample"
    path: str = "data/raw/sample"
    pictures: str = "data/corpus/pictures"
    draws_pictures: ClassVar[bool] = True

    def files(self) -> list[str]:
        """Return the description."""
        return [FILE]
