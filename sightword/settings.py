"""The base of every section of ``params.yaml``: typed, frozen, nothing unknown."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

MAX_SEED = 2**32 - 1
"""The largest seed that all random generators in use accept."""


class Settings(BaseModel):
    """A section of the parameters; each field's docstring says what it does, with its unit and source."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
