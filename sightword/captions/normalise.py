"""Normalises a text before its tokens are counted or encoded."""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sightword.errors import CaptionsError

_ACCEPTED = {
    "unicode": ("none", "NFC", "NFKC"),
    "case": ("keep", "lower"),
    "whitespace": ("keep", "collapse"),
    "full_stop": ("as_is", "add"),
}


@dataclass(frozen=True)
class Normalisation:
    """The four choices of :class:`sightword.captions.settings.CaptionsSettings`, as kept in a vocabulary."""

    unicode: Literal["none", "NFC", "NFKC"] = "none"
    case: Literal["keep", "lower"] = "keep"
    whitespace: Literal["keep", "collapse"] = "keep"
    full_stop: Literal["as_is", "add"] = "as_is"

    def __call__(self, text: str) -> str:
        """Return ``text`` normalised: Unicode form, case, white space, full stop, in this order."""
        if self.unicode != "none":
            text = unicodedata.normalize(self.unicode, text)
        if self.case == "lower":
            text = text.lower()
        if self.whitespace == "collapse":
            text = " ".join(text.split())
        if self.full_stop == "add" and not text.endswith("."):
            text += " ."
        return text

    def to_json(self) -> dict[str, str]:
        """Return the choices as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any, *, where: object) -> Normalisation:
        """Read the result of :meth:`to_json`.

        Raises:
            CaptionsError: a choice is missing or unknown, or has an unknown value.
        """
        keys = ", ".join(_ACCEPTED)
        if not isinstance(value, dict) or set(value) != set(_ACCEPTED):
            raise CaptionsError(
                "normalise has missing or unknown keys", where=where, expected=f"an object with the keys {keys}"
            )
        for key, accepted in _ACCEPTED.items():
            if value[key] not in accepted:
                raise CaptionsError(
                    f"normalise.{key} = {value[key]!r}", where=where, expected=f"one of {', '.join(accepted)}"
                )
        return cls(**value)
