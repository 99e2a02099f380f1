"""The characters that the training captions hold, and the id of each.

Padding and unknown have ids of their own, 0 and 1, so that no character shares one
with them (in the published code the digit 0 shares its id with padding).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipeline.captions.normalise import Normalisation
from pipeline.errors import CaptionsError, FileFormatError
from pipeline.files import Pathish, read_json, write_json

SCHEMA = 1
PAD = 0
UNKNOWN = 1
_FIRST = 2
_TODO = "Make it anew with the stage captions (`dvc repro captions`)."


@dataclass(frozen=True)
class Vocabulary:
    """All that is needed to encode a sentence: the characters in the order of their ids, and the normalisation."""

    tokens: tuple[str, ...]
    """Token i has the id i + 2."""
    normalise: Normalisation = field(default_factory=Normalisation)
    unit: str = "character"
    """What a token is; ``character`` is the only unit so far."""

    @classmethod
    def build(cls, texts: Iterable[str], *, normalise: Normalisation | None = None, min_count: int = 1) -> Vocabulary:
        """Collect the characters of the training captions, sorted by code point.

        Args:
            texts: the training captions only, as published.
            normalise: done to each text first (default: nothing).
            min_count: characters rarer than this are left out.

        Raises:
            CaptionsError: no character is left.
        """
        normalise = normalise or Normalisation()
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(normalise(text))
        tokens = tuple(sorted(token for token, count in counts.items() if count >= min_count))
        if not tokens:
            raise CaptionsError(
                f"no character occurs {min_count} times or more in the training captions",
                todo="Look whether the corpus has a training split, or lower captions.min_count.",
            )
        return cls(tokens, normalise)

    def __len__(self) -> int:
        """The number of ids, padding and unknown included: the height of an embedding table."""
        return len(self.tokens) + _FIRST

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens, start=_FIRST)}

    def encode(self, text: str) -> list[int]:
        """The ids of a text's characters, after normalisation; a character that is not known gets 1."""
        return [self._ids.get(token, UNKNOWN) for token in self.normalise(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The (normalised) text of some ids; padding gives nothing, unknown the sign U+FFFD.

        Raises:
            CaptionsError: an id is not of this vocabulary.
        """
        return "".join(self._token(int(number)) for number in ids)

    def _token(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise CaptionsError(f"the id {number} is not of this vocabulary", expected=f"0 to {len(self) - 1}")
        return "" if number == PAD else "\N{REPLACEMENT CHARACTER}" if number == UNKNOWN else self.tokens[number - 2]

    def to_json(self) -> dict[str, Any]:
        """The content of ``vocabulary.json``."""
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
        """Check and take what :meth:`to_json` gave; ``where`` is named in the message.

        Raises:
            CaptionsError: it is no such vocabulary, or from a later version.
        """
        if not isinstance(value, dict):
            raise CaptionsError("is not a JSON object", where=where, todo=_TODO)
        for key, expected in (("schema", SCHEMA), ("unit", "character"), ("pad", PAD), ("unknown", UNKNOWN)):
            if value.get(key) != expected or isinstance(value.get(key), bool):
                raise CaptionsError(f"{key} = {value.get(key)!r}", where=where, expected=repr(expected), todo=_TODO)
        tokens = value.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, str) and len(token) == 1 for token in tokens):
            raise CaptionsError("tokens is not a list of single characters", where=where, todo=_TODO)
        if not tokens or tokens != sorted(set(tokens)):
            raise CaptionsError("tokens are not sorted, each there once, at least one", where=where, todo=_TODO)
        return cls(tuple(tokens), Normalisation.from_json(value.get("normalise"), where=where))

    def save(self, path: Pathish) -> None:
        """Write ``vocabulary.json``."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: Pathish) -> Vocabulary:
        """Read ``vocabulary.json``.

        Raises:
            CaptionsError: it is missing, no JSON, or no vocabulary.
        """
        try:
            return cls.from_json(read_json(path, todo=_TODO), where=path)
        except FileFormatError as error:
            raise CaptionsError(error.what, where=error.where, todo=error.todo) from None
