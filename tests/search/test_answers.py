"""Answers as people read them, and as spreadsheets do."""

from __future__ import annotations

import csv
import io
from unicodedata import category, east_asian_width, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli.search_text import cut
from sightword.search.query import as_csv, shown


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
        ("Un chien !\nIl court\N{NO-BREAK SPACE}!", "Un chien!\nIl court\N{NO-BREAK SPACE}!"),
    ],
)
def test_a_caption_is_shown_without_the_spaces_of_a_tokeniser(caption, read):
    assert shown(caption) == read


JOINED = "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}"


@pytest.mark.parametrize(
    ("text", "room", "read"),
    [
        ("a dog runs", 10, "a dog runs"),
        ("a dog runs", 9, "a dog ru…"),
        ("两只狗在雪地里奔跑", 18, "两只狗在雪地里奔跑"),
        ("两只狗在雪地里奔跑", 17, "两只狗在雪地里奔…"),
        (normalize("NFD", "éééé"), 3, normalize("NFD", "éé") + "…"),
        (f"a{JOINED}b", 5, "a…"),
        (f"a{JOINED}b", 6, f"a{JOINED}b"),
        ("दौड़ रहे", 3, "दौ…"),
    ],
)
def test_a_line_is_cut_at_its_columns_between_letters(text, room, read):
    assert cut(text, room) == read


@given(st.text(), st.integers(1, 30))
def test_a_cut_line_fits_and_is_the_begin_of_the_text(text, room):
    found = cut(text, room)
    assert text.startswith(found.removesuffix("…") if found != text else text)
    assert sum(1 + (east_asian_width(one) in "WF") for one in found if category(one) not in ("Mn", "Me", "Cf")) <= room


def test_cells_come_back_as_they_were_but_for_formulas():
    rows = [["a", 'b "c", d', "two\nlines"], ["é", "", " x "], ["=1+1", "@x", "-y"]]
    found = list(csv.reader(io.StringIO(as_csv([*rows, [1, -0.5, 2.25]]))))
    assert found == [*rows[:2], ["'=1+1", "'@x", "'-y"], ["1", "-0.5", "2.25"]]
