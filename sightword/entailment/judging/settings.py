"""The section ``evaluate`` of ``entailment/params.yaml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sightword.settings import MAX_SEED, Settings


class NetworkSettings(Settings):
    """The classifier on both vectors and their absolute difference, as Vendrov et al. (2016), section 5.4, train it on
    skip-thoughts: two hidden layers with batch normalisation, PReLU and dropout.
    """

    sides: Literal["both", "hypothesis"] = "both"
    """``both``: the vectors of premise and hypothesis (published); ``hypothesis``, a control: that of the hypothesis
    only, which shows what the classifier learns without the premise."""
    classes: Literal[2, 3] = 2
    """The classes that it and the regression on the hypothesis tell apart: entailed or not; or entailment, neutral and
    contradiction, of which the log-odds of entailment give the energy."""
    hidden: int = Field(default=1000, ge=1)
    """Units of each of the two hidden layers (published: 1,000)."""
    dropout: float = Field(default=0.5, ge=0.0, lt=1.0)
    """The share of inputs and of hidden units set to zero in training (published: 0.5)."""
    epochs: int = Field(default=10, ge=0)
    """Passes over the training pairs; the weights of the best epoch on dev are kept. 0 leaves the classifier out."""


class EntailmentSettings(Settings):
    """How entailment is judged, beside which baselines and encoders, and what the page shows."""

    split: Literal["dev", "test"] = "test"
    """The split that is scored; each threshold is always that of dev."""
    words: int = Field(default=10_000, ge=1)
    """The baseline that sees the hypothesis only: its features are the most frequent words and pairs of words of the
    training hypotheses, at most so many."""
    classifier: NetworkSettings = NetworkSettings()
    """The classifier on features of each encoder."""
    encoders: str = "data/raw/encoders"
    """A folder with saved encoders, each in a folder of its own, whose name is the system's; ``captions.parquet`` in it
    is the table of its training captions."""
    seed: int = Field(default=0, ge=0, le=MAX_SEED)
    """The seed of all classifiers and of random weights."""
    title: str = "Entailment"
    """The title of the page."""
