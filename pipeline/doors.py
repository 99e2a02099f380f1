"""Public names of a package that load their module, and what it needs, at first use (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def open_door(package: str, doors: Mapping[str, str], name: str) -> Any:
    """The object ``name`` from the module that ``doors`` tells.

    Raises:
        AttributeError: there is no such name.
    """
    if name not in doors:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(importlib.import_module(doors[name]), name)
