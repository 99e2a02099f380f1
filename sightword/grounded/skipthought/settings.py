"""The section ``skipthought`` of ``grounded/params.yaml``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from sightword.settings import MAX_SEED, Settings


class SkipthoughtSettings(Settings):
    """The encoder of ordered text and its training run; defaults as Bordes et al. (2019) and their released code."""

    objective: Literal["skipthought", "infonce", "none"] = "skipthought"
    """``skipthought``: the words of both neighbours are predicted from a sentence's vector (Kiros et al. 2015);
    ``infonce``: the next sentence is told from the other next sentences of the batch (after Logeswaran & Lee 2018);
    ``none``: the initial weights, no training."""
    embedding: int = Field(620, gt=0)
    """Width of a word's embedding; encoder and decoders share the table."""
    hidden: int = Field(2048, gt=0)
    """States of the encoder and of each decoder: the width of a sentence's vector."""
    layer_norm: Literal["none", "frozen"] = "none"
    """Layer normalisation in the GRUs of encoder and decoders (Ba et al. 2016): ``none``, or ``frozen``, with gains
    that stay 1 and without biases (released code)."""
    decode: list[Literal["previous", "next"]] = Field(["previous", "next"], min_length=1)
    """The neighbours that are decoded, each by a decoder of its own."""
    reduction: Literal["padded", "tokens", "sentences"] = "padded"
    """The loss of a batch, for each decoder the sum over its words divided by: ``padded``, sentences times
    ``text.max_tokens`` (as released); ``tokens``, the number of words; ``sentences``, the number of sentences. The
    losses of both decoders are added."""
    temperature: float = Field(0.1, gt=0)
    """The divisor of the cosines of ``infonce``."""
    batch: int = Field(128, ge=2)
    """Triples in a batch (``infonce``: pairs); the rest of an epoch, less than a batch, is left out."""
    bucket: int = Field(1, ge=1)
    """Batches that are drawn together and share out their triples by length, which saves time; 1: drawn at random."""
    rate: float = Field(8e-4, gt=0)
    """Learning rate of Adam at the start."""
    decay: float = Field(0.5, gt=0, le=1)
    """The rate at step t is ``rate * decay ** (t / decay_steps)``: it falls continuously."""
    decay_steps: int = Field(400_000, ge=1)
    """Steps in which the rate falls by the factor ``decay``."""
    clip: float | None = Field(5.0, gt=0)
    """Largest norm of the gradient of all weights; null for none."""
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
    deterministic: bool = True
    """On a GPU use only kernels that PyTorch calls deterministic. A CPU always gives the same bits."""

    @field_validator("decode")
    @classmethod
    def _each_once(cls, decode: list[str]) -> list[str]:
        if len(set(decode)) < len(decode):
            raise ValueError("a neighbour is named twice")
        return decode

    def noted(self) -> dict[str, Any]:
        """Return the values as a saved encoder notes them; without layer normalisation as before there was a choice."""
        return self.model_dump(exclude={"layer_norm"} if self.layer_norm == "none" else None)
