"""The texts of a search: sentences, checked before they are encoded."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from sightword.captions.units import JOINERS, NOUN, Unit, is_mark, split
from sightword.captions.vocabulary import FULL_STOPS, Vocabulary
from sightword.errors import SearchError
from sightword.messages import QUOTED, and_more, short

LONGEST = 1000
"""Characters of a query. Captions have about 50; a recurrent network reads one after another."""
_BEFORE = re.compile(r"[ \t]+(?=[.,;:!?](?:\s|$)|n't\b|'(?:s|m|d|re|ve|ll)\b)")
_SUM = "This encoder was not trained for an order: the sum of the embeddings, at length 1, stands for the maximum."
_INVISIBLE = ("Cc", "Cf", "Mn", "Me", "Zs", "Zl", "Zp")
"""The categories of characters that show nothing by themselves."""


@dataclass(frozen=True)
class Query:
    """A sentence that can be encoded."""

    text: str
    unknown: tuple[str, ...] = ()
    """Characters (or words) of the text that the encoder never saw, each once, in order; without white space."""
    unit: Unit = "character"

    @property
    def note(self) -> str:
        """The note on unknown characters (or words) for the user; empty where all are known."""
        if not self.unknown:
            return ""
        kind, verb = (NOUN[self.unit], "is") if len(self.unknown) == 1 else (f"{NOUN[self.unit]}s", "are")
        return f"The {kind} {_listed(self.unknown)} {verb} unknown to this encoder."


def check_query(text: str, vocabulary: Vocabulary, name: str = "the query") -> Query:
    """Return a typed sentence as a query for an encoder with this vocabulary; messages call the sentence ``name``.

    Where the captions that the encoder learned from have letters and accents in another Unicode form than the sentence,
    the query has theirs.

    Raises:
        SearchError: the text is empty, too long, not UTF-8, or all its characters (or words) are unknown.
    """
    text = check_text(text, name)
    known = set(vocabulary.tokens)
    tokens = _tokens(text, vocabulary)
    unknown = tuple(token for token in tokens if token not in known)
    for form in ("NFC", "NFD") if unknown else ():
        other = unicodedata.normalize(form, text)
        found = _tokens(other, vocabulary)
        left = tuple(token for token in found if token not in known)
        if set(left) < set(unknown):
            text, tokens, unknown = other, found, left
    if len(unknown) == len(tokens):
        raise SearchError(
            f"no {NOUN[vocabulary.unit]} of {name} is known to this encoder: {_listed(unknown)}",
            expected=f"some of the {len(known)} {NOUN[vocabulary.unit]}s of its vocabulary",
        )
    return Query(text, unknown, vocabulary.unit)


def check_text(text: str, name: str = "the query") -> str:
    """Return a typed text without white space at its ends; SearchError if it is empty, too long, or not UTF-8."""
    if not isinstance(text, str):
        raise SearchError(f"{name} is {type(text).__name__}", expected='a sentence, such as "a dog runs"')
    try:
        text.encode()
    except UnicodeEncodeError as error:  # Python keeps undecodable bytes as lone surrogates
        what = f"{name} is not valid UTF-8 (character {error.start + 1})"
        raise SearchError(what, expected="text in UTF-8") from None
    text = text.strip()
    if all(unicodedata.category(character) in _INVISIBLE for character in text):
        raise SearchError(f"{name} is empty", expected='a sentence, such as "a dog runs"')
    if len(text) > LONGEST:
        raise SearchError(f"{name} has {len(text):,} characters", expected=f"a sentence of at most {LONGEST:,}")
    return text


def _tokens(text: str, vocabulary: Vocabulary) -> dict[str, None]:
    """Return the tokens of a text without white space, joiners and an added full stop, each once, in order."""
    normal = vocabulary.normalise(text)
    if vocabulary.normalise.full_stop == "add" and not text.endswith(FULL_STOPS):
        normal = normal.removesuffix(" .")
    return dict.fromkeys(token for token in split(normal, vocabulary.unit) if token.strip() and token not in JOINERS)


def _listed(tokens: tuple[str, ...]) -> str:
    # A token that would move the cursor of a terminal is escaped.
    readable = (token if token.isprintable() else token.encode("unicode_escape").decode() for token in tokens)
    marked = (f"◌{token}" if is_mark(token[0]) else token for token in readable)
    return and_more((f"“{short(token, QUOTED - 2)}”" for token in marked), 8)


def shown(text: str) -> str:
    """Return a caption for reading, without white space before a full stop and the like."""
    return _BEFORE.sub("", text)


def operation(similarity: str, how: str) -> tuple[str, str]:
    """Return the operation by which ``max`` or ``min`` combines embeddings, and a note where it is another one."""
    if similarity == "order":
        return ("maximum" if how == "max" else "minimum"), ""
    if similarity == "reversed_order":
        used, word = ("minimum", "composes") if how == "max" else ("maximum", "abstracts")
        return used, f"The order of this encoder is reversed: the elementwise {used} {word}."
    return "sum", _SUM
