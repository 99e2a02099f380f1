"""What a token is: a character, or a word."""

from __future__ import annotations

import re
from typing import Literal

Unit = Literal["character", "word"]
UNITS: tuple[Unit, ...] = ("character", "word")

_WORD = re.compile(r"\w+|[^\w\s]")


def split(text: str, unit: Unit) -> list[str]:
    """A normalised text as tokens.

    Words are the longest runs of letters, digits and underscores (of any script), and each other sign that is no
    white space by itself: ``A dog's ball.`` gives ``A dog ' s ball .``. Nothing is stemmed or put into lower case.
    """
    return _WORD.findall(text) if unit == "word" else list(text)


def join(tokens: list[str], unit: Unit) -> str:
    """The text of some tokens; between words stands one space."""
    return " ".join(tokens) if unit == "word" else "".join(tokens)


def is_token(token: object, unit: Unit) -> bool:
    """Whether something is one token and not none or many."""
    return isinstance(token, str) and (len(token) == 1 if unit == "character" else _WORD.fullmatch(token) is not None)
