"""The section ``train`` of ``entailment/params.yaml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sightword.settings import MAX_SEED, Settings


class EntailSettings(Settings):
    """The encoder of both sentences and its training run; defaults as Vendrov et al. (2016), section 5.3."""

    start: str | None = Field(None, min_length=1)
    """The name of a saved encoder in ``train.encoders`` from whose weights and vocabulary training starts, such as one
    that learned from pictures (proposed by Merkx & Frank 2019, section 5); null: random weights. With an encoder
    the parameters from unit to hidden are not used, but for its similarity, which is that of the energy."""
    encoders: str = "data/raw/starts"
    """A folder with saved encoders, each in a folder of its own, from which training can start."""
    unit: Literal["character", "word"] = "word"
    """What a token is: a character, or a word or sign (order-embeddings)."""
    case: Literal["keep", "lower"] = "keep"
    """Keep capital letters (released code), or write all in lower case."""
    embedding: int = Field(300, gt=0)
    """Width of a token's embedding."""
    hidden: int = Field(1024, gt=0)
    """States of the GRU."""
    energy: Literal["order", "symmetric"] = "order"
    """The energy of a pair: ``order``, the squared length of max(0, hypothesis - premise) of vectors without signs; or
    ``symmetric``, 1 - cosine of vectors with signs."""
    normalise: Literal["l2", "none"] = "l2"
    """``l2``: vectors of length 1 (the paper); ``none``: vectors as they are (released code). The symmetric energy does
    not depend on it."""
    margin: float = Field(0.2, gt=0)
    """The energy from which a pair that is not entailed costs nothing."""
    reduction: Literal["mean", "sum"] = "sum"
    """The loss of a batch is the ``mean`` or the ``sum`` over its pairs (as published)."""
    batch: int = Field(128, ge=1)
    """Pairs in a batch; the last batch of an epoch has the rest."""
    epochs: int = Field(10, ge=1)
    """Passes through the training pairs (paper: 10, released code: 15)."""
    rate: float = Field(0.001, gt=0)
    """Learning rate of Adam."""
    clip: float | None = Field(2.0, gt=0)
    """Largest norm of the gradient of all weights; null for none."""
    validate_every: int = Field(100, ge=1)
    """Batches from one validation on dev to the next, besides the one at the end; the best weights on dev are kept."""
    seed: int = Field(0, ge=0, le=MAX_SEED)
    """Seed of the initial weights and of the order of the pairs."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """``bf16``: bfloat16 autocast around the recurrent layer in training; faster, other last digits."""
    deterministic: bool = True
    """On a GPU use only kernels that PyTorch calls deterministic. A CPU always gives the same bits."""
