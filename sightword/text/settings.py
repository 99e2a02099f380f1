"""The section ``text`` of ``grounded/params.yaml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sightword.settings import MAX_SEED, Settings


class TextSettings(Settings):
    """The ordered text, its words, and its held-out part; defaults as Bordes et al. (2019) where they name a value."""

    format: Literal["lines", "bookcorpus", "sample"] = "lines"
    """``lines``: one sentence a line, and an empty line between passages; ``bookcorpus``: the same, where each file is
    one passage; ``sample``: little stories about the sample's scenes."""
    path: str = Field("data/raw/text", min_length=1)
    """A file, plain or .gz, or a folder whose .txt and .txt.gz files are read in the order of their names; of
    ``sample`` the folder with ``scenes.yaml``."""
    stories: int = Field(400, ge=4)
    """Stories that ``sample`` writes, of eight to twelve sentences; unused by the other formats."""
    max_tokens: int = Field(30, ge=2)
    """Sentences of this many tokens or more are no part of a triple or a pair (released code)."""
    vocabulary: int | None = Field(20000, ge=1)
    """The most words of the vocabulary, the most frequent ones; null for no limit."""
    vocabulary_from: Literal["text", "text_and_captions"] = "text"
    """Whether the words of the training captions are counted too."""
    min_count: int = Field(1, ge=1)
    """Words that are rarer than this become 'unknown'."""
    held_out: float = Field(0.01, gt=0, le=0.5)
    """The share of the sentences that is held out of training, at most, for the validation loss."""
    held_out_by: Literal["passage", "book", "block"] = "passage"
    """What is held out whole: passages; books (files, or as ``books.csv`` in the folder says); or blocks of a thousand
    consecutive sentences, for text without breaks."""
    seed: int = Field(0, ge=0, le=MAX_SEED)
    """The seed of the choice of the held-out part, and of the sample's stories."""
