"""Normalises a text before its tokens are counted or encoded."""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args, get_type_hints

from sightword.errors import CaptionsError
from sightword.messages import quote

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
