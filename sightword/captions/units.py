"""Splits a text into tokens, which are characters or words, and joins tokens."""

from __future__ import annotations

import re
from typing import Literal, get_args

Unit = Literal["character", "word", "treebank"]
UNITS: tuple[Unit, ...] = get_args(Unit)
NOUN: dict[Unit, str] = {"character": "character", "word": "word", "treebank": "word"}
"""The noun for a token of each unit, for messages."""

_WORD = re.compile(r"\w+|[^\w\s]")

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»", '"'),
        **dict.fromkeys("‘’‚‛`´", "'"),
        **dict.fromkeys("—―⸺⸻", "--"),
        **dict.fromkeys("–‒‐‑−", "-"),
        "…": "...",
        **dict.fromkeys("\N{SOFT HYPHEN}\N{WORD JOINER}\N{ZERO WIDTH SPACE}\N{ZERO WIDTH NO-BREAK SPACE}"),
    }
)
_SUFFIX = re.compile(r"(?<=\w)(n't|'(?:s|m|d|ll|re|ve))(?=(?:n't)*(?!\w))", re.IGNORECASE)
_TREEBANK = re.compile(
    r"""
    n't(?!\w) | '(?:s|m|d|ll|re|ve)(?!\w)              # do n't, dog 's
    | can(?=not(?!\w))                                 # can not
    | (?:mrs?|ms|dr|st|messrs|mme|mlle|prof|jr|sr)\.   # Mr.
    | (?:[^\W\d_]\.){2,}(?!\w)                         # U.S., a.m.
    | \d+(?:[.,:/]\d+)+(?!\w)                          # 1,000.5, 12:30, 1/2
    | \w+(?:[-']\w+)*                                  # dog, t-shirt, o'clock
    | \.{2,} | -{2,} | \S
    """,
    re.IGNORECASE | re.VERBOSE,
)


def split(text: str, unit: Unit) -> list[str]:
    """Return the tokens of a normalised text.

    ``word``: the longest runs of letters, digits and underscores (of any script), and every other single sign except
    white space: ``A dog's ball.`` gives ``A dog ' s ball .``.

    ``treebank``: words nearly as in the Penn Treebank. Contractions are two tokens (``do n't``, ``dog 's``); words with
    hyphens or apostrophes inside, numbers, and a few abbreviations are one (``t-shirt``, ``o'clock``, ``1,000.5``,
    ``Mr.``); other signs stand alone, but ``--`` and ``...`` are one token. Typographic signs become ASCII, and all
    double quotation marks, the Treebank's own two signs too, become ``"``. A text of such tokens has the same tokens.

    Nothing is stemmed or put into lower case.
    """
    if unit == "treebank":
        return _treebank(text)
    return _WORD.findall(text) if unit == "word" else list(text)


def _treebank(text: str) -> list[str]:
    if not text.isascii() or "`" in text:
        text = text.translate(_PLAIN)
    if "'" in text:
        text = _SUFFIX.sub(r" \1", text.replace("''", '"'))
    return _TREEBANK.findall(text)


def join(tokens: list[str], unit: Unit) -> str:
    """Return the text of tokens, with one space between words."""
    return "".join(tokens) if unit == "character" else " ".join(tokens)


def is_token(token: object, unit: Unit) -> bool:
    """Return whether ``token`` is exactly one token."""
    if not isinstance(token, str):
        return False
    if unit == "treebank":
        return _treebank(token) == [token]
    return len(token) == 1 if unit == "character" else _WORD.fullmatch(token) is not None
