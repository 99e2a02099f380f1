"""Public names of a package that load their module, and the packages it needs, at first use (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def load(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Return the object ``name`` from its module.

    Raises:
        AttributeError: there is no such name.
    """
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(importlib.import_module(modules[name]), name)
