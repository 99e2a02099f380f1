"""The section ``train`` of the parameters."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from sightword.model.settings import ModelSettings
from sightword.model.shape import InitialisationName
from sightword.settings import MAX_SEED


class TrainSettings(ModelSettings):
    """How the encoders are trained; defaults are the published char-GRU on Flickr8k (Merkx & Frank 2019)."""

    start: str | None = Field(None, min_length=1)
    """The name of a saved encoder in ``train.encoders`` from whose weights and vocabulary the encoder of captions
    starts, such as one that was trained on other pictures; null: random weights. Its network must have these parameters
    from embedding to ngram_buckets, except for its similarity, and ``captions.unit``; the parameters of captions from
    unicode to min_count are not used. The map of the pictures starts at random."""
    encoders: str = "data/raw/pretrained"
    """A folder with saved encoders, each in a subfolder, from which training can start."""
    seed: int = Field(0, ge=0, le=MAX_SEED)
    """Seed of the initial weights and of the order of the batches."""
    initialisation: InitialisationName = "char_gru"
    """The initial weights, as in the released code of ``char_gru`` (Merkx & Frank 2019), ``vsepp`` or
    ``order_embeddings``. Embeddings of tokens start with the standard deviation 1 in the first (``hardest`` then hardly
    learns) and 0.06 in the others."""
    loss: Literal["hinge", "hardest", "infonce"] = "hinge"
    """The objective: ``hinge`` over all mismatched pairs of the minibatch (the published one), ``hardest`` over the
    hardest mismatch of each caption and picture (VSE++, Faghri et al. 2018), or ``infonce``, the right partner against
    the whole minibatch, in both directions (CLIP, Radford et al. 2021)."""
    reduction: Literal["mean", "sum"] = "mean"
    """``mean`` over batch x batch (the released code; clipping depends on this scale) or ``sum`` (the paper);
    with ``hardest`` and ``infonce`` the mean over the batch's pairs."""
    margin: float = Field(0.2, ge=0)
    """Margin of ``hinge`` and ``hardest``: 0.2 of the cosine (Merkx & Frank, VSE++), 0.05 of the order penalty
    (order-embeddings)."""
    pictures: Literal["real", "shuffled", "none"] = "real"
    """Controls. ``shuffled``: the pictures exchange their features at random; the captions of a picture share a wrong
    picture. ``none``: captions are compared with second captions only."""
    clusters: Literal["real", "shuffled"] = "real"
    """``shuffled``, a control: captions are dealt to pictures at random, so that those of a picture are unrelated."""
    second_caption: bool = False
    """With each caption of a batch comes another caption of its picture, drawn anew in each epoch; both are paired with
    the picture, and with each other (Parekh et al. 2021)."""
    beside_batch: int = Field(0, ge=0)
    """Captions without pictures (``corpus.beside``) in each batch, each of a different group and paired with another
    caption of this group; 0: none."""
    typing_errors: float = Field(0.0, ge=0, lt=1)
    """Share of a caption's tokens at which training makes a typing error, drawn anew in each epoch: a token is left
    out, or changes places with the next token."""
    spans: float = Field(0.0, ge=0, le=1)
    """Share of the captions of pictures that training cuts to a run of one to four words, other ones in each epoch. A
    run has no punctuation inside, and no function word of English or German at its ends."""
    dropout_features: float = Field(0.0, ge=0, lt=1)
    """Share of a picture's (standardised) features set to zero in training."""
    dropout_states: float = Field(0.0, ge=0, lt=1)
    """Share of the recurrent states, or of the mean of the n-grams, set to zero in training."""
    batch: int = Field(32, ge=2)
    """Pairs in a minibatch, at most. No picture is twice in a batch: pass i of an epoch takes caption i of every
    picture."""
    last_batch: Literal["keep", "drop"] = "keep"
    """``drop``: batches have exactly ``batch`` pairs and the rest of a pass is left out (Merkx & Frank's and
    order-embeddings' released code); ``keep``: a pass is cut into batches of nearly equal size."""
    epochs: int = Field(32, ge=1)
    """Passes through all captions, or through all pictures; a multiple of ``cycle``."""
    captions_per_epoch: Literal["all", "one"] = "all"
    """``one``: an epoch takes one random caption of each picture (order-embeddings)."""
    schedule: Literal["cyclic", "step", "cosine", "range"] = "cyclic"
    """The learning rate goes up and down in cycles; is ``rate_max`` at first and falls in a ``step`` every 15 epochs
    (VSE++); rises to ``rate_max`` in a tenth of the run and falls to ``rate_min`` along one ``cosine`` (CLIP); or rises
    from ``rate_min`` to ``rate_max`` by equal factors, the ``range`` test of Smith (2017)."""
    cycle: int = Field(4, ge=1)
    """Epochs in a cycle of the learning rate; a snapshot is kept at each cycle's end. With another
    schedule the epochs from one snapshot to the next."""
    rate_min: float = Field(1e-6, gt=0)
    """Learning rate at both ends of a cycle, at the end of a ``cosine``, or first of a ``range``; unused by
    ``step``."""
    rate_max: float = Field(1e-3, gt=0)
    """Learning rate in the middle of a cycle (Flickr8k 1e-3, COCO 1e-4), before the first step, or last of a
    ``range``."""
    step_factor: float = Field(0.1, gt=0, le=1)
    """Factor of the learning rate at each step (VSE++: 0.1); for ``step`` only."""
    clip_images: float | None = Field(0.0025, gt=0)
    """Largest gradient norm of the picture side; null for none (the released code clips on Flickr8k only)."""
    clip_captions: float | None = Field(0.05, gt=0)
    """Largest gradient norm of the caption side; null for none."""
    clip_scope: Literal["side", "all", "tensor"] = "side"
    """Weights that share one norm: all of a ``side`` (Merkx & Frank), ``all`` of both sides (VSE++; both limits must be
    the same), or each ``tensor`` (order-embeddings)."""
    snapshots: Literal["cycle", "epoch"] = "cycle"
    """Keep a snapshot at each cycle's end, or at every ``epoch``: of the untrained encoders too, as epoch 0 (Merkx &
    Frank 2019, Figure 4), which ``select`` never chooses."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """``bf16``: bfloat16 autocast around the recurrent layer: faster, with other last digits."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        clips = f"clip_images is {self.clip_images} and clip_captions {self.clip_captions}"
        faults = (
            (self.cell == "tfidf" and self.similarity != "cosine",
             f"cell tfidf has no side of pictures, so similarity must be cosine, not {self.similarity}"),
            (self.cell == "tfidf" and self.start is not None,
             f"cell tfidf is counted, not trained, so start must be null, not {self.start}"),
            (self.cell == "tfidf" and {self.pictures, self.clusters} != {"real"},
             "cell tfidf counts captions alone: pictures and clusters must be real"),
            (self.schedule != "step" and self.rate_min > self.rate_max,
             f"rate_min ({self.rate_min}) is above rate_max ({self.rate_max})"),
            (self.second_caption and self.similarity != "cosine",
             f"second_caption compares captions, which similarity {self.similarity} does not"),
            (self.beside_batch == 1, "beside_batch must be 0 or at least 2: one caption has no others to differ from"),
            (bool(self.beside_batch) and self.similarity != "cosine",
             f"beside_batch compares captions, which similarity {self.similarity} does not"),
            (bool(self.beside_batch) and self.cell == "tfidf",
             "beside_batch must be 0 with cell tfidf, which counts the captions of pictures alone"),
            (bool(self.spans or self.typing_errors) and self.cell == "tfidf",
             "spans and typing_errors must be 0 with cell tfidf, which counts whole captions as they are"),
            (self.pictures == "none" and not self.second_caption,
             "pictures none compares captions with second captions only: second_caption must be true"),
            (self.clip_scope == "all" and self.clip_images != self.clip_captions,
             f"clip_scope all has one limit for both sides, but {clips}"),
            (self.epochs % self.cycle and self.snapshots == "cycle",
             f"epochs ({self.epochs}) is no multiple of cycle ({self.cycle}): set train.cycle too"),
        )  # fmt: skip
        for wrong, what in faults:
            if wrong:
                raise ValueError(what)
        return self

    def noted(self) -> dict[str, Any]:
        """Return the values as snapshots and encoders note them: without a start, nothing of starts."""
        return self.model_dump(exclude={"start", "encoders"} if self.start is None else None)
