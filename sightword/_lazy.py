"""Public names of a package that load their module, and the packages that the module needs, at first use (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def load(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Return the object ``name`` from its module.

    Raises:
        AttributeError: the package has no such name.
        ModuleNotFoundError: the module needs a package that is not installed; the message names the extra.
    """
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(modules[name]), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{package}.{name} needs {error.name}, which is not installed. "
            "Install the extra: pip install 'sightword[pipeline]'.",
            name=error.name,
        ) from error
