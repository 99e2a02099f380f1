"""git holds the project only: no stores, caches, runs, and nothing about the machines where the project ran."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

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
