"""Splits a text into tokens, which are characters or words, and joins tokens."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, get_args

Unit = Literal["character", "word", "treebank"]
UNITS: tuple[Unit, ...] = get_args(Unit)
NOUN: dict[Unit, str] = {"character": "character", "word": "word", "treebank": "word"}
"""The noun for a token of each unit, for messages."""

_PLAIN_WORD = re.compile(r"\w+|[^\w\s]")
JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""Signs that show nothing, and tell how the letters beside them are written."""


def is_mark(character: str) -> bool:
    """Return whether a character belongs to the letter before it: a combining mark, or a joiner of letters."""
    return unicodedata.category(character)[0] == "M" or character in JOINERS


@functools.cache
def _word() -> re.Pattern[str]:
    """Return the pattern of words with their marks, which Python's signs of words do not have."""
    marks = "".join(filter(is_mark, map(chr, (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)))))
    return re.compile(rf"\w[\w{re.escape(marks)}]*|[^\w\s]")


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

    ``word``: the longest runs of letters with their marks, digits and underscores (of any script), and every other
    single sign except white space: ``A dog's ball.`` gives ``A dog ' s ball .``.

    ``treebank``: words nearly as in the Penn Treebank. Contractions are two tokens (``do n't``, ``dog 's``); words with
    hyphens or apostrophes inside, numbers, and a few abbreviations are one (``t-shirt``, ``o'clock``, ``1,000.5``,
    ``Mr.``); other signs stand alone, but ``--`` and ``...`` are one token. Typographic signs become ASCII, and all
    double quotation marks, the Treebank's own two signs too, become ``"``. A text of such tokens has the same tokens.

    Nothing is stemmed or put into lower case.
    """
    if unit == "treebank":
        return _treebank(text)
    if unit == "character":
        return list(text)
    return (_PLAIN_WORD if text.isascii() else _word()).findall(text)


_ENGLISH = """
    a an the some and or but of in on at to with by for from into onto over under up down off out as is are was were be
    being it its he his she her him they their them there this that these those who which while s t
"""
_GERMAN = """
    der die das den dem des ein eine einen einem einer eines und oder von vom in im ins auf an am zu zum zur mit bei
    beim für aus nach über unter vor hinter neben durch um als ist sind wird werden er sie es sich sein seine seinen
    seinem seiner ihr ihre ihren ihrem ihrer
"""
FUNCTION_WORDS = frozenset([*_ENGLISH.split(), *_GERMAN.split()])
"""Words of English and German that say little alone, without those that say something in the other language."""


def runs(tokens: Sequence[str], unit: Unit, most: int) -> list[list[tuple[int, int]]]:
    """Return where runs of 1, 2, .. ``most`` words start and end among the tokens of a text, by number of words.

    A run has no sign inside, and no function word at either end: ``a brown dog runs .`` has the runs ``brown``,
    ``dog``, ``runs``; ``brown dog``, ``dog runs``; ``brown dog runs``.
    """
    if unit == "character":
        found = (_PLAIN_WORD if (text := "".join(tokens)).isascii() else _word()).finditer(text)
        words = [(word[0], *word.span()) for word in found]
    else:
        words = [(token, place, place + 1) for place, token in enumerate(tokens)]
    ends = [word[:1].isalnum() and word.casefold() not in FUNCTION_WORDS for word, _, _ in words]
    lists: list[list[tuple[int, int]]] = [[] for _ in range(most)]
    for first in (place for place, end in enumerate(ends) if end):
        for last in range(first, min(first + most, len(words))):
            if not words[last][0][:1].isalnum():
                break
            if ends[last]:
                lists[last - first].append((words[first][1], words[last][2]))
    return lists


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
    return len(token) == 1 if unit == "character" else _word().fullmatch(token) is not None
