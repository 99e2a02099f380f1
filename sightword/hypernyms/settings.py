"""The sections of ``hypernyms/params.yaml``."""

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
    spread. 0 leaves them out; unused with lists."""
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


class EmbedSettings(Settings):
    """How the embeddings are trained; defaults as Vendrov et al. (2016), section 3.3."""

    energy: Literal["order", "symmetric", "bilinear", "gaussian", "cone"] = "order"
    """The penalty of a pair: ``order`` (Vendrov et al. 2016); ``symmetric``, (1 - cosine) / 2; ``bilinear``
    (Socher et al. 2013); ``gaussian`` (Athiwaratkun & Wilson 2018); ``cone`` (Ganea et al. 2018)."""
    dimension: int = Field(50, ge=1)
    """Numbers of a vector; a gaussian has two vectors."""
    margin: float = Field(1.0, gt=0)
    """The energy from which a false pair costs nothing."""
    margin_start: float | None = Field(None, gt=0)
    """The margin of the first epoch, from which it grows evenly to ``margin`` over the first half of the epochs; null
    keeps ``margin`` throughout, as published."""
    slack: float = Field(0.0, ge=0)
    """The divergence up to which ``gaussian`` counts as 0; unused by the others."""
    batch: int = Field(1000, ge=2)
    """Pairs in a batch: one half true, one half corrupted."""
    epochs: int = Field(40, ge=1)
    """Passes through the true training pairs (30 to 50 in the paper)."""
    rate: float = Field(0.01, gt=0)
    """Learning rate of Adam; ``cone`` has Riemannian Adagrad (Becigneul & Ganea 2019), which prefers 0.3 to 0.5, and
    starts from Poincare embeddings (Nickel & Kiela 2017), as published."""
    init: float = Field(1.0, gt=0)
    """Standard deviation of the initial numbers; gaussians scale their own by it, ``cone`` has none."""
    corrupt: Literal["known", "as_drawn"] = "known"
    """The false pairs of training: ``known`` draws a pair of the training split again; ``as_drawn`` keeps it, as the
    released code does."""
    validate_every: int = Field(100, ge=1)
    """Batches from one validation on dev to the next; the best weights on dev are kept."""
    criterion: Literal["accuracy", "f1"] = "accuracy"
    """The number on dev that chooses threshold and weights; ``f1`` as Ganea et al. (2018)."""
    seed: int = Field(0, ge=0, le=MAX_SEED)
    """Seed of the initial weights, the order of the pairs, and the corrupted pairs."""


class HypernymsSettings(Settings):
    """How predicted hypernyms are judged, and what the page shows."""

    title: str = "Hypernyms"
    """The title of the page."""
