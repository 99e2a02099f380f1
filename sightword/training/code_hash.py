"""The code that a training runs, as one hash: after a change, a half-done training starts afresh."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import sightword

_PLACE = Path(sightword.__path__[0])
_HERE = Path(__file__).parent


def code_hash() -> str:
    """Sha256 hex over the files of :func:`code_files`, their names included."""
    digest = hashlib.sha256()
    for path in code_files():
        data = path.read_bytes()
        digest.update(f"{path.relative_to(_PLACE).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def code_files() -> list[Path]:
    """This room's files, and those of the library that they import, directly or through others; sorted.

    Nothing is imported for it. Imports within functions count too, those for type checkers only do not.
    """
    waiting = sorted(_HERE.glob("*.py"))
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [file for name in _imports(path) for file in _files(name)]
    return sorted(found)


def _imports(path: Path) -> list[str]:
    """All names that a file may import a module by: of ``from a import b`` both ``a`` and ``a.b``."""
    names: list[str] = []
    nodes: list[ast.AST] = [ast.parse(path.read_bytes())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes += node.orelse
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _files(name: str) -> list[Path]:
    """The files that importing a module of the library runs: its own, and those of the packages around it."""
    first, *inner = name.split(".")
    if first != "sightword":
        return []
    places = [_PLACE.joinpath(*inner[:length]) for length in range(len(inner) + 1)]
    candidates = [file for place in places for file in (place / "__init__.py", place.with_suffix(".py"))]
    return [file for file in candidates if file.is_file()]
