"""The texts of a search: sentences, checked before they are encoded, and answers as tables."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightword.captions.units import JOINERS, NOUN, Unit, is_mark, split
from sightword.captions.vocabulary import FULL_STOPS, Vocabulary
from sightword.errors import SearchError
from sightword.messages import QUOTED, and_more, short

if TYPE_CHECKING:
    from sightword.search.catalogue import Caption, Catalogue

LONGEST = 1000
"""Characters of a query. Captions have about 50; a recurrent network reads one after another."""
PICTURES = ("query", "rank", "picture", "score", "split", "captions")
"""Columns of a table of pictures."""
CAPTIONS = ("picture", "rank", "caption", "score", "own")
"""Columns of a table of captions; ``own`` is 1 for a caption of the picture, else 0."""
BETWEEN = " | "
"""Separates the captions of a picture in a cell."""
_BEFORE = re.compile(r"[ \t]+(?=[.,;:!?](?:\s|$)|n't\b|'(?:s|m|d|re|ve|ll)\b)")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_SUM = "This encoder was not trained for an order: the sum of the embeddings, at length 1, stands for the maximum."

Cell = str | int | float
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
    if all(unicodedata.category(character) in _INVISIBLE for character in text):
        raise SearchError(f"{name} is empty", expected='a sentence, such as "a dog runs"')
    if len(text) > LONGEST:
        raise SearchError(f"{name} has {len(text):,} characters", expected=f"a sentence of at most {LONGEST:,}")
    return text


def _tokens(text: str, vocabulary: Vocabulary) -> dict[str, None]:
    """Return the tokens of a text without white space and joiners, each once, in order."""
    tokens = split(_normalised(text, vocabulary), vocabulary.unit)
    return dict.fromkeys(token for token in tokens if token.strip() and token not in JOINERS)


def _normalised(text: str, vocabulary: Vocabulary) -> str:
    """Normalise as the vocabulary does, without a full stop that the user did not type."""
    found = vocabulary.normalise(text)
    if vocabulary.normalise.full_stop == "add" and not text.endswith(FULL_STOPS):
        return found.removesuffix(" .")
    return found


def _listed(tokens: tuple[str, ...]) -> str:
    # A token that would move the cursor of a terminal is escaped.
    readable = (token if token.isprintable() else token.encode("unicode_escape").decode() for token in tokens)
    marked = (f"◌{token}" if is_mark(token[0]) else token for token in readable)
    return and_more((f"“{short(token, QUOTED - 2)}”" for token in marked), 8)


def shown(text: str) -> str:
    """Return a caption for reading, without white space before a full stop and the like."""
    return _BEFORE.sub("", text)


def picture_rows(
    query: str, hits: Iterable[tuple[str, float]], catalogue: Catalogue, language: str | None = None
) -> list[tuple[Cell, ...]]:
    """Return the rows of pictures, given by id and score, best first, that a query found; captions in one language,
    unless None.
    """
    return [
        (
            query,
            rank,
            picture,
            score,
            catalogue.splits.get(picture, ""),
            BETWEEN.join(catalogue.texts(picture, language)),
        )
        for rank, (picture, score) in enumerate(hits, start=1)
    ]


def caption_rows(picture: str, found: Iterable[tuple[Caption, float]]) -> list[tuple[Cell, ...]]:
    """Return the rows of captions, best first, that a picture found."""
    return [
        (picture, rank, caption.text, score, int(picture in caption.pictures))
        for rank, (caption, score) in enumerate(found, start=1)
    ]


def as_csv(rows: Iterable[Sequence[Cell]]) -> str:
    """Return rows as CSV, with quotes where they are needed.

    An apostrophe is put before a text that a spreadsheet would take for a formula.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row])
    return out.getvalue()


def operation(similarity: str, how: str) -> tuple[str, str]:
    """Return the operation by which ``max`` and ``min`` combine embeddings, and a note where it is not the named one.

    See :mod:`sightword.encoder.composition`.
    """
    if similarity == "order":
        return ("maximum" if how == "max" else "minimum"), ""
    if similarity == "reversed_order":
        used, word = ("minimum", "composes") if how == "max" else ("maximum", "abstracts")
        return used, f"The order of this encoder is reversed: the elementwise {used} {word}."
    return "sum", _SUM
