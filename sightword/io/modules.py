"""Modules that a person names or a program does without, and the source files of code."""

from __future__ import annotations

import ast
import hashlib
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import all_suffixes
from pathlib import Path
from types import ModuleType

from sightword.io.files import canonical_json


def import_here(name: str) -> ModuleType:
    """Import an installed module, or one of the working folder; ImportError if there is none."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def hash_sources(root: Path, names: Iterable[str]) -> str:
    """Return the sha256 of source files and their names, paths below ``root``; kinds of line ends do not differ."""
    files = {name: (root / name).read_bytes().replace(b"\r\n", b"\n") for name in names}
    hashes = {name: hashlib.sha256(text).hexdigest() for name, text in files.items()}
    return hashlib.sha256(canonical_json(hashes).encode()).hexdigest()


def imported_files(module: str, root: Path) -> list[str]:
    """Return the files of a module and of the modules that it imports, as paths below ``root``, without running them.

    Of a folder of installed packages these are the files of the module's own top-level package. Files of Sightword
    are left out, and imports by ``importlib`` are not seen.
    """
    own = f"{module.partition('.')[0]}." if root.name in ("site-packages", "dist-packages") else ""
    found: dict[str, Path | None] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if not name or name in found or not f"{name}.".startswith(own) or f"{name}.".startswith("sightword."):
            continue
        path = found[name] = _file(name, root)
        waiting.append(name.rpartition(".")[0])  # a package's own file runs before its modules
        waiting += _imports(name, path) if path else ()
    return sorted(path.relative_to(root).as_posix() for path in found.values() if path)


def _file(module: str, root: Path) -> Path | None:
    place = str(root.joinpath(*module.split(".")))
    paths = (Path(f"{place}{inner}{suffix}") for inner in (f"{os.sep}__init__", "") for suffix in all_suffixes())
    return next((path for path in paths if path.is_file()), None)


def _imports(module: str, path: Path) -> Iterator[str]:
    """Yield the names that a module imports, some of which may be no modules."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes()))) if path.suffix == ".py" else []
    except (SyntaxError, ValueError):  # imports nothing
        return
    parts = module.split(".")
    package = parts if path.stem == "__init__" else parts[:-1]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*above, *filter(None, [node.module])])
            yield start
            yield from (f"{start}.{alias.name}" for alias in node.names)


class _NoPandas:
    """A finder of modules that finds no pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas; leave other modules to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def leave_pandas() -> None:
    """Let pyarrow do without pandas, half a second of a program's start, until a table becomes a frame."""
    if "pandas" not in sys.modules:
        import pyarrow as pa

        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.array([])
        finally:
            sys.meta_path.remove(_NoPandas)
