"""The section ``skipthought`` of ``grounded/params.yaml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sightword.settings import MAX_SEED, Settings


class SkipthoughtSettings(Settings):
    """The encoder of ordered text and its training run; defaults as Bordes et al. (2019) and their released code."""

    objective: Literal["skipthought", "infonce"] = "skipthought"
    """``skipthought``: the words of both neighbours are predicted from a sentence's vector (Kiros et al. 2015);
    ``infonce``: the next sentence is told from the other next sentences of the batch (after Logeswaran & Lee 2018)."""
    embedding: int = Field(620, gt=0)
    """Width of a word's embedding; encoder and decoders share the table."""
    hidden: int = Field(2048, gt=0)
    """States of the encoder and of each decoder: the width of a sentence's vector."""
    batch: int = Field(128, ge=2)
    """Triples in a batch (``infonce``: pairs); the rest of an epoch, less than a batch, is left out."""
    bucket: int = Field(1, ge=1)
    """Batches that are drawn together and share out their triples by length, which saves time; 1: drawn at random."""
    rate: float = Field(8e-4, gt=0)
    """Learning rate of Adam at the start; it falls continuously, by half in 400,000 steps."""
    steps: int = Field(400_000, ge=1)
    """Batches to train on."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """``bf16``: recurrent and output layers compute in bfloat16 in training; weights and sums stay float32."""
    validate_every: int = Field(5_000, ge=1)
    """Steps from one validation on held-out text to the next, besides the one at the end."""
    validation: int = Field(2_000, ge=1)
    """Held-out triples (or pairs) of a validation, evenly spread; all where there are fewer."""
    seed: int = Field(0, ge=0, le=MAX_SEED)
    """Seed of the initial weights and of the order of the triples."""
