"""The section ``captions`` of the parameters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.settings import Settings


class CaptionsSettings(Settings):
    """How a caption's text becomes a sequence of characters; the defaults leave it as it is (Merkx & Frank 2019)."""

    unicode: Literal["none", "NFC", "NFKC"] = "none"
    """Unicode normalisation: none, or one of Unicode's own forms."""

    case: Literal["keep", "lower"] = "keep"
    """Keep capital letters, or write all in lower case."""

    whitespace: Literal["keep", "collapse"] = "keep"
    """Keep white space as it is, or make each run of it one space and take it off the ends."""

    full_stop: Literal["as_is", "add"] = "as_is"
    """Leave the caption's end as it is (the paper), or add `` .`` where the last character is no full stop (the
    paper's released code)."""

    min_count: int = Field(1, ge=1)
    """Characters that are rarer than this in the training captions become 'unknown'; 1 keeps all."""
