"""The list of the novels names each source so that the text can be found again."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import pytest


@pytest.fixture
def novels(repository: Path) -> list[dict[str, str]]:
    with open(repository / "recipes/lists/novels.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_novel_has_a_source_with_a_commit_and_a_hash(novels: list[dict[str, str]]) -> None:
    assert len({novel["repo"] for novel in novels}) == len(novels) == 89
    for novel in novels:
        assert re.fullmatch("[0-9a-f]{40}", novel["commit"]), novel["title"]
        assert re.fullmatch("[0-9a-f]{64}", novel["sha256"]), novel["title"]
        assert novel["source"].startswith("https://")
        assert 1868 <= int(novel["year"]) <= 1925


def test_each_novel_begins_where_the_text_has_a_break(novels: list[dict[str, str]], real_data: Path) -> None:
    with gzip.open(real_data / "books/sentences.txt.gz", "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    firsts = [int(novel["first_line"]) for novel in novels]
    assert firsts[0] == 1
    assert not any(lines[first - 2] for first in firsts[1:])
    for novel, first, end in zip(novels, firsts, [*firsts[1:], len(lines) + 1], strict=True):
        assert sum(map(bool, lines[first - 1 : end - 1])) == int(novel["sentences"]), novel["title"]
