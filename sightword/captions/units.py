"""Splits a text into tokens, which are characters or words, and joins tokens."""

from __future__ import annotations

import re
from typing import Literal, get_args

Unit = Literal["character", "word"]
UNITS: tuple[Unit, ...] = get_args(Unit)

_WORD = re.compile(r"\w+|[^\w\s]")


def split(text: str, unit: Unit) -> list[str]:
    """Return the tokens of a normalised text.

    Words are the longest runs of letters, digits and underscores (of any script), and every other single sign except
    white space: ``A dog's ball.`` gives ``A dog ' s ball .``. Nothing is stemmed or put into lower case.
    """
    return _WORD.findall(text) if unit == "word" else list(text)


def join(tokens: list[str], unit: Unit) -> str:
    """Return the text of tokens, with one space between words."""
    return " ".join(tokens) if unit == "word" else "".join(tokens)


def is_token(token: object, unit: Unit) -> bool:
    """Return whether ``token`` is exactly one token."""
    return isinstance(token, str) and (len(token) == 1 if unit == "character" else _WORD.fullmatch(token) is not None)
