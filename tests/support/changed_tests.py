"""Print the test files whose imports reach a file that differs from a commit: ``python changed_tests.py [COMMIT]``.

A changed file that no import names, such as a template, a recipe or a page of the docs, selects the tests that name the
file. Without a commit, HEAD is meant. A test that starts a pipeline in a process of its own may name no module, so the
whole suite has the last word.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import sightword

ROOT = Path(__file__).parents[2]
PLACES = (ROOT, ROOT / "tests" / "support")


def changed(commit: str) -> set[Path]:
    """The files that differ from a commit, and the new ones."""
    commands = (["git", "diff", "--name-only", commit], ["git", "ls-files", "--others", "--exclude-standard"])
    listed = (subprocess.run(one, cwd=ROOT, capture_output=True, text=True, check=True).stdout for one in commands)
    return {ROOT / path for text in listed for path in text.splitlines()}


@functools.cache
def module(name: str) -> Path | None:
    """The file of a module of the project, or of a module for tests."""
    stems = [place / name.replace(".", "/") for place in PLACES]
    return next(
        (path for stem in stems for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None
    )


@functools.cache
def imports(path: Path) -> set[Path]:
    """The files that a file imports; a public name of the library stands for its own module."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            own = [f"{node.module}.{alias.name}" for alias in node.names]
            doors = (
                [sightword._MODULES.get(alias.name, "") for alias in node.names] if node.module == "sightword" else []
            )
            names += [node.module, *own, *doors]
    return {found for found in map(module, names) if found and found != path}


def reached(test: Path) -> set[Path]:
    """The files that a test's imports reach, the test and its conftest.py files with them."""
    waiting = [test, *(folder / "conftest.py" for folder in test.parents if folder.is_relative_to(ROOT / "tests"))]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found and path.is_file():
            found.add(path)
            waiting += imports(path)
    return found


def selected(differing: set[Path]) -> list[Path]:
    """The test files whose outcome a change of some files can alter."""
    known = {test: reached(test) for test in sorted((ROOT / "tests").rglob("test_*.py"))}
    named = {path.name for path in differing - set().union(*known.values())}
    return [
        test for test, files in known.items() if files & differing or any(name in test.read_text() for name in named)
    ]


if __name__ == "__main__":
    commit = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    sys.stdout.writelines(f"{test.relative_to(ROOT)}\n" for test in selected(changed(commit)))
