"""The normalisation of texts, and the vocabulary: the characters or words of the training captions, and their ids.

In the published code the digit 0 shares its id with padding; here no token does.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from sightword.captions.units import NOUN, UNITS, Unit, is_token, join, split
from sightword.errors import CaptionsError, FileFormatError
from sightword.io.files import Pathish, read_json, write_json
from sightword.io.saved import Format
from sightword.messages import quote

SCHEMA = 1
PAD = 0
UNKNOWN = 1
_FIRST = 2
_TODO = "Run the stage captions again (`dvc repro captions`)."
FOLDER = Format("vocabulary.json", SCHEMA, _TODO, CaptionsError)
"""The format of ``data/captions/``."""
FULL_STOPS = (*".。．｡।۔։።",)
"""The full stops of all scripts: Latin, Chinese and Japanese, Hindi, Urdu, Armenian, Ethiopic."""


@dataclass(frozen=True)
class Normalisation:
    """The four choices of :class:`sightword.captions.settings.CaptionsSettings`, as kept in a vocabulary."""

    unicode: Literal["none", "NFC", "NFKC"] = "none"
    case: Literal["keep", "lower", "fold_capitals"] = "keep"
    whitespace: Literal["keep", "collapse"] = "keep"
    full_stop: Literal["as_is", "add"] = "as_is"

    def __call__(self, text: str) -> str:
        """Return ``text`` normalised: Unicode form, case, white space, full stop, in this order."""
        if self.unicode != "none":
            text = unicodedata.normalize(self.unicode, text)
        shouted = self.case == "fold_capitals" and text.isupper() and sum(map(str.isalpha, text)) > 1
        if self.case == "lower" or shouted:
            text = text.lower()
        if self.whitespace == "collapse":
            text = " ".join(text.split())
        if self.full_stop == "add" and not text.endswith(FULL_STOPS):
            text += " ."
        return text

    def to_json(self) -> dict[str, str]:
        """Return the choices as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any, *, where: object) -> Normalisation:
        """Read the result of :meth:`to_json`; CaptionsError for missing or unknown choices or values."""
        if not isinstance(value, dict) or set(value) != set(_ACCEPTED):
            expected = f"an object with the keys {', '.join(_ACCEPTED)}"
            raise CaptionsError("normalise has missing or unknown keys", where=where, expected=expected)
        for key, accepted in _ACCEPTED.items():
            if value[key] not in accepted:
                expected = f"one of {', '.join(accepted)}"
                raise CaptionsError(f"normalise.{key} = {quote(value[key])}", where=where, expected=expected)
        return cls(**value)


_ACCEPTED = {key: get_args(choices) for key, choices in get_type_hints(Normalisation).items()}


@dataclass(frozen=True)
class Vocabulary:
    """Everything needed to encode a sentence: the tokens in the order of their ids, the unit and the normalisation."""

    tokens: tuple[str, ...]
    """Token i has the id i + 2."""
    normalise: Normalisation = field(default_factory=Normalisation)
    unit: Unit = "character"
    """The kind of token."""

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        *,
        normalise: Normalisation | None = None,
        min_count: int = 1,
        unit: Unit = "character",
        size: int | None = None,
    ) -> Vocabulary:
        """Collect the tokens of the training captions, as published, that occur ``min_count`` times or more.

        The tokens are sorted by code point. ``size`` keeps the most frequent ones only, the first by code point among
        equals. CaptionsError if none is left.
        """
        normalise = normalise or Normalisation()
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(split(normalise(text), unit))
        tokens = most_frequent(counts, min_count, size)
        if not tokens:
            todo = "Check that the corpus has a training split, or lower captions.min_count."
            what = f"no {NOUN[unit]} occurs {min_count} times or more in the training captions"
            raise CaptionsError(what, todo=todo)
        return cls(tokens, normalise, unit)

    def __len__(self) -> int:
        """Return the number of ids, including padding and unknown: the height of an embedding table."""
        return len(self.tokens) + _FIRST

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens, start=_FIRST)}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text's tokens after normalisation; an unknown token gets 1."""
        return [self._ids.get(token, UNKNOWN) for token in split(self.normalise(text), self.unit)]

    @cached_property
    def _id_of_code(self) -> npt.NDArray[np.int64]:
        """The id of each code point up to the first behind the largest token's, which stands for all others."""
        codes = np.array([ord(token) for token in self.tokens])
        found = np.full(codes.max() + 2, UNKNOWN, np.int64)
        found[codes] = np.arange(_FIRST, len(self))
        return found

    def rows(self, texts: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """Return the ids of each text as :meth:`encode` does; those of characters are looked up together."""
        if self.unit != "character":
            return [np.array(self.encode(text), np.int64) for text in texts]
        normalised = [self.normalise(text) for text in texts]
        codes = np.frombuffer("".join(normalised).encode("utf-32-le", "surrogatepass"), "<u4")
        ids = self._id_of_code[np.minimum(codes, len(self._id_of_code) - 1)]
        ends = np.cumsum([len(text) for text in normalised], dtype=np.int64).tolist()
        return [ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    @cached_property
    def names(self) -> list[str]:
        """The text of each id: nothing for padding, U+FFFD for unknown tokens."""
        return ["", "\N{REPLACEMENT CHARACTER}", *self.tokens]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the normalised text of ids, without padding and with U+FFFD for unknown tokens.

        CaptionsError: an id is not in this vocabulary.
        """
        numbers = [int(number) for number in ids]
        if wrong := [number for number in numbers if not 0 <= number < len(self)]:
            raise CaptionsError(f"the id {wrong[0]} is not in this vocabulary", expected=f"0 to {len(self) - 1}")
        return join([self.names[number] for number in numbers if number != PAD], self.unit)

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``vocabulary.json``."""
        return {
            "schema": SCHEMA,
            "unit": self.unit,
            "pad": PAD,
            "unknown": UNKNOWN,
            "normalise": self.normalise.to_json(),
            "tokens": list(self.tokens),
        }

    @classmethod
    def from_json(cls, value: Any, *, where: object = "vocabulary") -> Vocabulary:
        """Check and read the result of :meth:`to_json`; the message names ``where``.

        CaptionsError: the value is not a vocabulary, or comes from a later version.
        """
        if not isinstance(value, dict):
            raise CaptionsError("is not a JSON object", where=where, todo=_TODO)
        unit: Any = value.get("unit")
        tokens = value.get("tokens")
        for key, accepted in (("schema", (SCHEMA,)), ("pad", (PAD,)), ("unknown", (UNKNOWN,)), ("unit", UNITS)):
            if value.get(key) not in accepted or isinstance(value.get(key), bool):
                expected = " or ".join(map(repr, accepted))
                raise CaptionsError(f"{key} = {quote(value.get(key))}", where=where, expected=expected, todo=_TODO)
        if not isinstance(tokens, list) or not all(is_token(token, unit) for token in tokens):
            raise CaptionsError(f"tokens is not a list of single {NOUN[unit]}s", where=where, todo=_TODO)
        if not tokens or tokens != sorted(set(tokens)):
            raise CaptionsError("tokens are empty, repeated or not sorted", where=where, todo=_TODO)
        return cls(tuple(tokens), Normalisation.from_json(value.get("normalise"), where=where), unit)

    def save(self, path: Pathish) -> None:
        """Write ``vocabulary.json``."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: Pathish) -> Vocabulary:
        """Read ``vocabulary.json``. CaptionsError: the file is missing, not JSON, or not a vocabulary."""
        try:
            return cls.from_json(read_json(path, todo=_TODO), where=path)
        except FileFormatError as error:
            raise CaptionsError(error.what, where=error.where, todo=error.todo) from None


def most_frequent(counts: Mapping[str, int], min_count: int, size: int | None = None) -> tuple[str, ...]:
    """Return the tokens that occur ``min_count`` times or more, at most ``size`` of them, sorted by code point.

    The most frequent tokens are kept, the first by code point among equals.
    """
    tokens = sorted(token for token, count in counts.items() if count >= min_count)
    if size is not None and size < len(tokens):
        tokens = sorted(sorted(tokens, key=lambda token: -counts[token])[:size])  # sorting keeps the order of equals
    return tuple(tokens)
