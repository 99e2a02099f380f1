"""The section ``train`` of ``hypernyms/params.yaml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sightword.settings import MAX_SEED, Settings


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
    """Standard deviation of the initial numbers; gaussians and cones scale their own by it."""
    corrupt: Literal["known", "as_drawn"] = "known"
    """The false pairs of training: ``known`` draws a pair of the training split again; ``as_drawn`` keeps it, as the
    released code does."""
    validate_every: int = Field(100, ge=1)
    """Batches from one validation on dev to the next; the best weights on dev are kept."""
    criterion: Literal["accuracy", "f1"] = "accuracy"
    """The number on dev that chooses threshold and weights; ``f1`` as Ganea et al. (2018)."""
    seed: int = Field(0, ge=0, le=MAX_SEED)
    """Seed of the initial weights, the order of the pairs, and the corrupted pairs."""
