"""The section ``captions`` of the parameters."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sightword.settings import MAX_SEED, Settings


class CaptionsSettings(Settings):
    """How a caption's text becomes a sequence of tokens; the defaults leave it as it is (Merkx & Frank 2019)."""

    unit: Literal["character", "word"] = "character"
    """What a token is: a character, or a word (order-embeddings and VSE++), which is a run of letters with their
    marks, digits and underscores, or any other sign by itself, after normalisation."""
    unicode: Literal["none", "NFC", "NFKC"] = "none"
    """Unicode normalisation: none, or one of Unicode's own forms."""
    case: Literal["keep", "lower", "fold_capitals"] = "keep"
    """Keep capital letters, or write all in lower case; ``fold_capitals``: only a text of two letters or more that is
    wholly in capitals."""
    whitespace: Literal["keep", "collapse"] = "keep"
    """Keep white space as it is, or make each run of it one space and take it off the ends."""
    full_stop: Literal["as_is", "add"] = "as_is"
    """Keep the caption's end (the paper), or add `` .`` if the last character is not a full stop (the
    paper's released code)."""
    min_count: int = Field(1, ge=1)
    """Tokens that are rarer than this in the training captions become 'unknown'; 1 keeps all."""
    train_pictures: int = Field(0, ge=0)
    """Keep the captions of only so many training pictures, chosen by a hash of their ids (``draw: hash``: of
    ``draw_seed`` and the ids); a larger number has all pictures of a smaller one. 0 keeps all."""
    train_captions: int = Field(0, ge=0)
    """Keep only so many captions of each training picture, those that ``draw`` names; 0 keeps all."""
    draw: Literal["first", "hash"] = "first"
    """The captions that ``train_captions`` keeps: the ``first`` ones, in Flickr8k the first in the alphabet; or those
    with the smallest ``hash`` of ``draw_seed``, picture and number. The first ones may be of one language alone."""
    draw_seed: int = Field(0, ge=0, le=MAX_SEED)
    """The seed of ``draw: hash``: each seed draws other pictures and other captions; with each, a larger
    ``train_captions`` has all captions of a smaller one."""

    @model_validator(mode="after")
    def _draws(self) -> Self:
        if self.draw_seed and self.draw == "first":
            raise ValueError(f"draw_seed is {self.draw_seed} with draw first: draw hash alone has a seed")
        return self
