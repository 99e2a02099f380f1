"""Which first-party files a module needs, found by following its imports.

Imports inside functions count; those under ``if TYPE_CHECKING`` do not run and do not
count; modules loaded by name (a package's doors, the sections of the parameters) do not
count either, since no stage's result depends on them.
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGES = ("sightword", "pipeline", "stages")
IDLE = (
    *("sightword/__init__.py", "sightword/errors.py", "stages/__init__.py"),
    *("sightword/messages.py", "sightword/io/transfer.py"),
    "sightword/encoder/pretrained.py",
)
"""Files that a stage loads and that cannot change an output: names loaded later, errors and their texts, a check of the
interpreter, downloads of files whose hash is checked, and the folder of an encoder's name: a stage names folders."""


def needed_files(root: Path, module: str) -> set[str]:
    """Paths relative to ``root`` of all first-party files that ``import module`` and its functions need."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = file_of(root, name)
        if path in found or path in IDLE:
            continue
        if not is_face(root / path):
            found |= {path, *data_files(root, path)}
        parts = name.split(".")
        waiting += [".".join(parts[:length]) for length in range(1, len(parts))]
        waiting += imports(root, path)
    return found


def is_face(path: Path) -> bool:
    """Whether a file is the ``__init__.py`` of a room and has a docstring only."""
    return path.name == "__init__.py" and all(isinstance(one, ast.Expr) for one in ast.parse(path.read_text()).body)


def file_of(root: Path, name: str) -> str:
    """The file of a module."""
    stem = name.replace(".", "/")
    for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
        if (root / candidate).is_file():
            return candidate
    raise AssertionError(f"{name} is imported, but there is no such module")


def data_files(root: Path, path: str) -> list[str]:
    """The files beside a module, such as a table or a style sheet, that it names."""
    tree = ast.parse((root / path).read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    beside = {file.name: file for file in (root / path).parent.iterdir() if file.is_file() and file.suffix != ".py"}
    return [str(beside[text].relative_to(root)) for text in sorted(texts & beside.keys())]


def imports(root: Path, path: str) -> list[str]:
    """The first-party modules that a file imports."""
    tree = ast.parse((root / path).read_text())
    names: list[str] = []
    for node in _walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            module = node.module or ""
            if module.split(".")[0] not in PACKAGES:
                continue
            for alias in node.names:
                if alias.name == "__version__":
                    continue  # of the distribution: it stands in no module
                names.append(_origin(root, path, node.lineno, module, alias.name))
    return [name for name in names if name.split(".")[0] in PACKAGES]


def _walk(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return [found for child in node.orelse for found in _walk(child)]
    return [node, *(found for child in ast.iter_child_nodes(node) for found in _walk(child))]


def _origin(root: Path, path: str, line: int, module: str, name: str) -> str:
    """The module that ``from module import name`` reads: a submodule, or ``module`` itself."""
    stem = root / module.replace(".", "/")
    if (stem / f"{name}.py").is_file() or (stem / name / "__init__.py").is_file():
        return f"{module}.{name}"
    if stem.is_dir():
        defined = ast.parse((stem / "__init__.py").read_text()).body
        names = {target.id for node in defined if isinstance(node, ast.Assign) for target in node.targets}
        names |= {node.name for node in defined if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        names.add("__version__")  # made when it is asked for
        assert name in names, f"{path}:{line}: {name} comes through the door of {module}; import it from its own module"
    return module
