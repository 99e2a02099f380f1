"""Queries: a typed sentence, checked before the sentence is encoded."""

from __future__ import annotations

from dataclasses import dataclass

from sightword.captions.normalise import FULL_STOPS
from sightword.captions.units import NOUN, Unit, split
from sightword.captions.vocabulary import Vocabulary
from sightword.errors import SearchError
from sightword.messages import QUOTED, and_more, short

LONGEST = 1000
"""Characters of a query. Captions have about 50; a recurrent network reads one after another."""


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

    Raises:
        SearchError: the text is empty, too long, not UTF-8, or all its characters (or words) are unknown.
    """
    text = check_text(text, name)
    known = set(vocabulary.tokens)
    tokens = dict.fromkeys(token for token in split(_normalised(text, vocabulary), vocabulary.unit) if token.strip())
    unknown = tuple(token for token in tokens if token not in known)
    if len(unknown) == len(tokens):
        raise SearchError(
            f"no {NOUN[vocabulary.unit]} of {name} is known to this encoder: {_listed(unknown)}",
            expected=f"some of the {len(known)} {NOUN[vocabulary.unit]}s of its vocabulary",
        )
    return Query(text, unknown, vocabulary.unit)


def check_text(text: str, name: str = "the query") -> str:
    """Return a typed text without white space at its ends; messages call the text ``name``.

    Raises:
        SearchError: the text is empty, too long, or not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:  # Python keeps undecodable bytes as lone surrogates
        what = f"{name} is not valid UTF-8 (character {error.start + 1})"
        raise SearchError(what, expected="text in UTF-8") from None
    text = text.strip()
    if not text:
        raise SearchError(f"{name} is empty", expected='a sentence, such as "a dog runs"')
    if len(text) > LONGEST:
        raise SearchError(f"{name} has {len(text):,} characters", expected=f"a sentence of at most {LONGEST:,}")
    return text


def _normalised(text: str, vocabulary: Vocabulary) -> str:
    """Normalise as the vocabulary does, without a full stop that the user did not type."""
    found = vocabulary.normalise(text)
    if vocabulary.normalise.full_stop == "add" and not text.endswith(FULL_STOPS):
        return found.removesuffix(" .")
    return found


def _listed(tokens: tuple[str, ...]) -> str:
    # A token that would move the cursor of a terminal is escaped.
    readable = (token if token.isprintable() else token.encode("unicode_escape").decode() for token in tokens)
    return and_more((f"“{short(token, QUOTED - 2)}”" for token in readable), 8)
