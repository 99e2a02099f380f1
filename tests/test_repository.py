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
FACTS_OF_A_RUN = re.compile(rb'^\s*"(host|platform|processor)"\s*:\s*"', re.MULTILINE)
"""Keys of a record in runs/, which names the machine."""


def tracked(repository: Path) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=True, text=True)
    return [Path(name) for name in listed.stdout.split("\0") if name]


def test_top_level_tracked_entries_are_those_of_the_project(repository: Path) -> None:
    assert {path.parts[0] for path in tracked(repository)} == set(TOP_LEVEL.split())


def test_no_tracked_file_is_a_record_of_a_run(repository: Path) -> None:
    """Such a record names the host, its processor and its packages; rows of results name the kind of processor only.

    The records of earlier versions that tests read are of made-up machines.
    """
    own, made_up = Path(__file__).relative_to(repository), Path("tests/lineage/older_facts")
    files = [path for path in tracked(repository) if path != own and path.parts[0] != "study"]
    files = [path for path in files if not path.is_relative_to(made_up)]
    assert [path for path in files if FACTS_OF_A_RUN.search((repository / path).read_bytes())] == []
    assert FACTS_OF_A_RUN.search(b' "host": "vm",\n')


def test_store_in_the_folder_is_ignored(repository: Path) -> None:
    inside = ["store/features/any", "runs/any.json"]
    found = subprocess.run(["git", "check-ignore", *inside], cwd=repository, capture_output=True, text=True)
    assert found.stdout.split() == inside
