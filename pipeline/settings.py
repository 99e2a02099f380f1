"""The base of every section of ``params.yaml``: typed, frozen, nothing unknown."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A section of the parameters; each field's docstring says what it does, with its unit and source."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)
