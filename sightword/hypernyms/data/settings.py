"""The section ``taxonomy`` of ``hypernyms/params.yaml``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sightword.settings import MAX_SEED, Settings


class TaxonomySettings(Settings):
    """The taxonomy, the pairs of its closure, and their split; defaults as Vendrov et al. (2016), section 3.2."""

    format: Literal["wordnet", "table", "sample"] = "wordnet"
    """``wordnet``: the files ``data.noun`` and ``index.noun``; ``table``: columns ``hyponym``, ``hypernym`` and maybe
    ``relation``; ``sample``: the descriptions of scenes by the words in ``scenes.yaml``."""
    path: str = "data/raw/wordnet"
    """The folder with these files, or the table."""
    relations: list[str] = Field(default=["hypernym", "instance_hypernym"], min_length=1)
    """The relations that are edges."""
    closure: Literal["distinct", "paths"] = "distinct"
    """``distinct``: each pair once; ``paths``: one row for each path from hyponym to hypernym, as the released code
    writes them, so that test rows stand in training as well."""
    dev: int = Field(4000, ge=1)
    """True pairs of the split dev, and as many false ones; unused with ``dev_pairs``."""
    test: int = Field(4000, ge=1)
    """True pairs of the split test, and as many false ones; unused with ``test_pairs``."""
    negatives: Literal["filtered", "as_drawn"] = "filtered"
    """The false pairs of dev and test: ``filtered`` draws a pair that is true again (side and concept); ``as_drawn``
    keeps it, as the released code does. For given lists the value states how they were made."""
    split_seed: int = Field(1, ge=0, le=MAX_SEED)
    """Seed of the split and of the false pairs of dev and test."""
    draws: int = Field(0, ge=0)
    """Splits drawn the same way, with the seeds from ``split_seed`` on, whose wrong labels are counted: mean and
    spread. 0 leaves them out."""
    lists: str = "data/raw/hypernyms"
    """The folder of given lists of pairs."""
    dev_pairs: str | None = None
    """A given list of labelled pairs for dev, below ``lists``; null draws the split."""
    test_pairs: str | None = None
    """A given list for test; with ``dev_pairs`` only."""
    train_pairs: str | None = None
    """A given list of true pairs for training; null takes all pairs of the closure that are in neither list."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.dev_pairs is None) != (self.test_pairs is None):
            raise ValueError("dev_pairs and test_pairs are given together, or both are null")
        if self.train_pairs is not None and self.dev_pairs is None:
            raise ValueError("train_pairs needs dev_pairs and test_pairs")
        return self
