"""The section ``retrieval`` of ``params.yaml``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from sightword.settings import Settings

Protocol = Literal["full", "five_fold_1k", "querybank"]


class RetrievalSettings(Settings):
    """How the encoder is judged by retrieval."""

    split: Literal["train", "dev", "test", "sealed"] = "test"
    """The split that is scored; ``sealed`` are the pictures that ``corpus.seal`` holds out."""
    protocols: list[Protocol] = Field(default=["full", "five_fold_1k"], min_length=1)
    """``full`` ranks all candidates of the split; ``five_fold_1k`` takes five folds, blocks of 1000 pictures in the
    corpus's own order (Vendrov and VSE++), and pools their queries, and is left out of a split with fewer than 5000;
    ``querybank`` ranks all candidates by the inverted softmax over a bank of training captions and pictures (Smith et
    al. 2017; Bogolin et al. 2022)."""
    top: int = Field(default=10, ge=1, le=100)
    """How many of the best candidates of each query are listed for a person to look at."""
    length_pairs: int = Field(default=0, ge=0, le=1_000_000)
    """Pairs of captions of one picture whose ranks are compared, the pairs that differ most in words (Vendrov et al.
    2016, section 4.6); 0 leaves them out."""
    bank_pictures: int = Field(default=10_000, ge=1)
    """Training pictures in the query bank, at most, each with its first caption; of more pictures, evenly spaced ones.
    """
    bank_temperature: float = Field(default=0.05, ge=0.001, le=10)
    """The temperature of the softmax over the query bank, in the unit of the cosine (as in the code of QB-Norm)."""
    batch_size: int = Field(default=256, ge=1)
    """Captions encoded together."""

    @field_validator("protocols")
    @classmethod
    def _once(cls, value: list[Protocol]) -> list[Protocol]:
        if len(set(value)) != len(value):
            raise ValueError("a protocol is named twice")
        return value

    @model_validator(mode="after")
    def _bank(self) -> Self:
        if "querybank" in self.protocols and self.split == "train":
            raise ValueError("the protocol querybank takes its bank from the split train: score dev or test")
        return self
