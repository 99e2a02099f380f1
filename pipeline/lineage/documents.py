"""The YAML files of DVC, read for the lineage of results."""

from __future__ import annotations

from typing import Any

from sightword.errors import FileFormatError, LineageError
from sightword.io import yaml_reader


def parse(text: str, where: object) -> Any:
    """Return the values of a YAML text, as :func:`sightword.io.yaml_reader.parse` does.

    Raises:
        LineageError: it cannot be read, with line and column.
    """
    try:
        return yaml_reader.parse(text, where)
    except FileFormatError as error:
        raise LineageError(error.what, where=error.where) from None
