"""Answers as people read them, and as spreadsheets do."""

from __future__ import annotations

import csv
import io

import pytest

from sightword.search.answers import as_csv, shown


@pytest.mark.parametrize(
    ("caption", "read"),
    [
        ("A dog runs .", "A dog runs."),
        ("a dog , a cat ; and : more !", "a dog, a cat; and: more!"),
        ("A dog 's ball does n't roll", "A dog's ball doesn't roll"),
        ("a .5 mile road ... and 3 .", "a .5 mile road ... and 3."),
        ("untouched, as typed.", "untouched, as typed."),
        ("an 'apple' on a table", "an 'apple' on a table"),
        ("", ""),
    ],
)
def test_a_caption_is_shown_without_the_spaces_of_a_tokeniser(caption, read):
    assert shown(caption) == read


def test_cells_come_back_as_they_were_but_for_formulas():
    rows = [["a", 'b "c", d', "two\nlines"], ["é", "", " x "], ["=1+1", "@x", "-y"]]
    found = list(csv.reader(io.StringIO(as_csv([*rows, [1, -0.5, 2.25]]))))
    assert found == [*rows[:2], ["'=1+1", "'@x", "'-y"], ["1", "-0.5", "2.25"]]
