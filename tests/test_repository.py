"""git holds the project only, and the code keeps the rules of CONTRIBUTING that are no matter of style."""

from __future__ import annotations

import ast
import re
import subprocess
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import budget
import first_party
import pytest

TOP_LEVEL = """
.ci .devcontainer .dvc .dvcignore .gitattributes .gitignore CHANGELOG.md CITATION.cff CONTRIBUTING.md Dockerfile LICENSE
Makefile README.md benchmarks constraints.txt data docs dvc.lock dvc.yaml entailment grounded hypernyms metrics
params.yaml pipeline pyproject.toml recipes setup.py sightword stages study tests tools
"""
FACTS_OF_A_RUN = re.compile(rb'^\s*"(host|platform)"\s*:\s*"', re.MULTILINE)
"""Keys of the facts of a run that name the machine."""


def tracked(repository: Path) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=True, text=True)
    return [Path(name) for name in listed.stdout.split("\0") if name]


def test_top_level_tracked_entries_are_those_of_the_project(repository: Path) -> None:
    assert {path.parts[0] for path in tracked(repository)} - {"runs"} == set(TOP_LEVEL.split())


def test_no_tracked_file_names_the_machine_of_a_run(repository: Path) -> None:
    """The facts in git have the kind of processor only."""
    own = Path(__file__).relative_to(repository)
    files = [path for path in tracked(repository) if path != own and path.parts[0] != "study"]
    assert [path for path in files if FACTS_OF_A_RUN.search((repository / path).read_bytes())] == []
    assert FACTS_OF_A_RUN.search(b' "host": "vm",\n')


def test_store_in_the_folder_is_ignored(repository: Path) -> None:
    inside = ["store/features/any", "runs/any.json"]
    found = subprocess.run(["git", "check-ignore", *inside], cwd=repository, capture_output=True, text=True)
    assert found.stdout.split() == inside


def test_room_keeps_its_budget(repository: Path) -> None:
    allowed, found = budget.allowed(repository), budget.lines(repository)
    assert found.keys() <= allowed.keys(), "run `python tests/support/budget.py`"
    larger = [
        f"{room}: {number:,} lines of {allowed[room]:,}"
        for room, number in found.items()
        if number > budget.SLACK * allowed[room]
    ]
    assert not larger, f"name the row that leaves, or raise the number in CONTRIBUTING.md: {'; '.join(larger)}"


def test_files_import_each_other_in_no_circle(repository: Path) -> None:
    """Imports inside functions count too; the faces of packages, which load by name, do not."""
    files = [path for package in first_party.PACKAGES for path in (repository / package).rglob("*.py")]
    graph = {}
    for path in files:
        name = path.relative_to(repository).as_posix()
        if path.name != "__init__.py":
            graph[name] = {first_party.file_of(repository, one) for one in first_party.imports(repository, name)}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}", pytrace=False)


def test_no_assert_calls_what_can_fail(repository: Path) -> None:
    """Python with -O leaves every assert out: what checks a user's file must not stand there."""
    files = [path for package in first_party.PACKAGES for path in (repository / package).rglob("*.py")]
    nodes = [(path.name, one.test) for path in files for one in ast.walk(ast.parse(path.read_text()))
             if isinstance(one, ast.Assert)]  # fmt: skip
    called = {(name, ast.unparse(test)) for name, test in nodes if isinstance(test, ast.Attribute | ast.Call)}
    assert {text.split("(")[0] for _, text in called} == {"isinstance"}, called


SYSTEMS = re.compile(r"\b(vse|hypernyms|entailment|grounded)\b")
NAMED = {
    "pipeline/cli/search.py": "an encoder's folder as an example in a help text",
    "pipeline/cli/encoder.py": "an encoder's folder as an example in a help text",
}
"""Files of pipeline/ that name a system, and why."""


def words(tree: ast.AST) -> list[str]:
    """The names and texts of a module, without docstrings."""
    plain = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.alias(name=text) | ast.ImportFrom(module=str(text)):
                found.append(text)
            case ast.Constant(value=str(text)) if id(node) not in plain:
                found.append(text)
    return found


def test_pipeline_names_no_system(repository: Path) -> None:
    named = {
        path.relative_to(repository).as_posix()
        for path in (repository / "pipeline").rglob("*.py")
        if any(SYSTEMS.search(text) for text in words(ast.parse(path.read_text())))
    }
    assert named == NAMED.keys()
