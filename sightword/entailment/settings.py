"""The sections of ``entailment/params.yaml``."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal, Self

from pydantic import Field, model_validator

from sightword.settings import MAX_SEED, SPLITS, Settings


class Source(Settings):
    """One source of labelled pairs."""

    format: Literal["snli", "table", "sample"]
    """``snli``: a folder with ``snli_1.0_*.jsonl``, or with SentEval's ``labels.*``, ``s1.*`` and ``s2.*``; ``table``:
    a .csv, .tsv or .jsonl file; ``sample``: pairs of the sample's own grammar."""
    path: str
    """The folder or the file."""
    part: str = ""
    """``train``, ``dev`` or ``test``; of ``table`` none."""
    premises: Literal["all", "most", "tenth"] = "all"
    """``tenth``: the pairs whose premise, in lower case, has a sha256 divisible by ten; ``most``: the other pairs."""
    count: int | None = Field(default=None, ge=1)
    """Pairs that ``sample`` draws; of the other formats none."""

    @property
    def name(self) -> str:
        """The name by which metrics and pages call the source."""
        path = PurePosixPath(self.path)
        if self.format == "table":
            return f"{path.parent.name}/{path.stem}"
        return f"{'sample' if self.format == 'sample' else path.name} {self.part}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        parts = ("",) if self.format == "table" else SPLITS
        if self.part not in parts:
            raise ValueError(f"part is {self.part!r}; {self.format} has {', '.join(map(repr, parts))}")
        if (self.format == "sample") != (self.count is not None):
            raise ValueError("count is given for the format sample, and for no other")
        return self


def _snli(part: str) -> list[Source]:
    return [Source(format="snli", path="data/raw/senteval/downstream/SNLI", part=part)]


class SentencePairsSettings(Settings):
    """The sources of the labelled sentence pairs; defaults as Vendrov et al. (2016)."""

    folder: str = "data/raw/senteval/downstream/SNLI"
    """A folder that DVC watches: the path of each source is in it or in ``tables``."""
    tables: str = "data/raw/entailment"
    """Another folder that DVC watches, for tables and for your corpora."""
    train: list[Source] = Field(default=_snli("train"), min_length=1)
    """The sources of training, joined in this order."""
    dev: list[Source] = Field(default=_snli("dev"), min_length=1)
    """The sources of dev."""
    test: list[Source] = Field(default=_snli("test"), min_length=1)
    """The sources of test."""
    size: int | None = Field(default=None, ge=2)
    """Training pairs to keep, for a learning curve: the first by the hash of the pair; null keeps all."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        roots = [PurePosixPath(self.folder), PurePosixPath(self.tables)]
        for source in (*self.train, *self.dev, *self.test):
            path = PurePosixPath(source.path)
            below = [path.relative_to(root).parts for root in roots if path.is_relative_to(root)]
            if not below or ".." in below[0]:
                raise ValueError(
                    f"the source {source.path} is neither in folder ({roots[0]}) nor in tables ({roots[1]})"
                )
        return self


class EntailSettings(Settings):
    """The encoder of both sentences and its training run; defaults as Vendrov et al. (2016), section 5.3."""

    start: str | None = Field(None, min_length=1)
    """The name of a saved encoder in ``train.encoders`` from whose weights and vocabulary training starts, such as one
    that learned from pictures (proposed by Merkx & Frank 2019, section 5); null: random weights. With an encoder the
    parameters from unit to hidden are not used, and the energy sets its similarity."""
    encoders: str = "data/raw/starts"
    """A folder with saved encoders, each in a subfolder, from which training can start."""
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
    """``bf16``: bfloat16 autocast around the recurrent layer in training: faster, with other last digits."""


class NetworkSettings(Settings):
    """The classifier on both vectors and their absolute difference, as Vendrov et al. (2016), section 5.4, train it on
    skip-thoughts: two hidden layers with batch normalisation, PReLU and dropout.
    """

    sides: Literal["both", "hypothesis"] = "both"
    """``both``: the vectors of premise and hypothesis (published); ``hypothesis``, a control: the vector of the
    hypothesis only, which shows what the classifier learns without the premise."""
    classes: Literal[2, 3] = 2
    """The classes that the classifier and the regression on the hypothesis tell apart: entailed or not; or entailment,
    neutral and contradiction, of which the log-odds of entailment give the energy."""
    hidden: int = Field(default=1000, ge=1)
    """Units of each of the two hidden layers (published: 1,000)."""
    dropout: float = Field(default=0.5, ge=0.0, lt=1.0)
    """The share of inputs and of hidden units set to zero in training (published: 0.5)."""
    epochs: int = Field(default=10, ge=0)
    """Passes over the training pairs; the weights of the best epoch on dev are kept. 0 leaves the classifier out."""


class EntailmentSettings(Settings):
    """How entailment is judged, and what the page shows."""

    words: int = Field(default=10_000, ge=1)
    """The baseline that sees the hypothesis only: its features are the most frequent words and pairs of words of the
    training hypotheses, at most so many."""
    classifier: NetworkSettings = NetworkSettings()
    """The classifier on features of each encoder."""
    encoders: str = "data/raw/encoders"
    """A folder with saved encoders, each in a subfolder, whose name is the system's; ``captions.parquet`` in it is the
    table of its training captions."""
    seed: int = Field(default=0, ge=0, le=MAX_SEED)
    """The seed of all classifiers and of random weights."""
    title: str = "Entailment"
    """The title of the page."""
