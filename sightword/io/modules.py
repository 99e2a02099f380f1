"""Imports modules that a person names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType


def import_here(name: str) -> ModuleType:
    """Import an installed module, or one of the working folder; ImportError if there is none."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)
