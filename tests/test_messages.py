"""Quotes, near names, flat names, shortened lists and lines of errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.errors import SightwordError
from sightword.messages import (
    QUOTED,
    SENTENCE,
    and_more,
    bounded,
    counts,
    did_you_mean,
    first_line,
    flat,
    guess,
    last_line,
    quote,
)


def test_nested_values_have_full_names():
    assert flat({"train": {"margin": 0.2, "rate": {"low": 1}}, "top": [1, 2]}) == {
        "train.margin": 0.2,
        "train.rate.low": 1,
        "top": [1, 2],
    }


@given(st.recursive(st.integers(), lambda inner: st.dictionaries(st.text("ab", min_size=1), inner), max_leaves=9))
def test_flat_names_lead_back_to_their_values(values):
    for name, value in flat({"x": values}).items():
        found = {"x": values}
        for part in name.split("."):
            found = found[part]
        assert found == value


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("trian", "Did you mean train?"),
        ("captionz", "Did you mean captions or caption.r10?"),
        ("r10", "Did you mean image.r10 or caption.r10?"),
        ("zzz", None),
        ("", None),
    ],
)
def test_near_names_are_asked_for(name, question):
    assert did_you_mean(name, ["train", "captions", "image.r10", "caption.r10"]) == question


def test_a_guess_stands_behind_a_wrong_name():
    assert guess("trian", ["train", "captions"]) == " (did you mean 'train'?)"
    assert guess("zzz", ["train"]) == guess(3, []) == ""


def test_the_first_line_of_an_error_or_its_class():
    assert first_line(ValueError("\n too long \nmore")) == "too long"
    assert first_line(MemoryError()) == "MemoryError"


def test_the_last_line_of_a_program_that_failed():
    assert last_line("warning\nERROR: no such stage\n\n") == "no such stage"
    assert last_line("\n") == "no message"


def test_long_lists_are_counted():
    assert and_more("abc") == "a, b, c"
    assert and_more("abcde") == "a, b, c and 2 more"
    assert and_more("abcde", 2, between="; ") == "a; b; and 3 more"
    assert and_more([]) == ""


def test_counts_of_zero_are_not_named():
    assert counts({"computed": 480, "from store": 0, "rejected": 3}, before="; ") == "; 480 computed, 3 rejected"
    assert counts({"rejected": 0}, before="; ") == ""


def test_a_long_value_is_cut_wherever_it_stands():
    value = "x" * 10**6
    assert quote(value) == f"'{'x' * (QUOTED - 5)} ..."
    assert quote(value[:70]) == repr(value[:70])
    assert and_more([value, "b"], between=" -> ") == f"{'x' * (QUOTED - 4)} ... -> b"
    assert and_more([value, "b"], between="; ") == f"{'x' * (SENTENCE - 4)} ...; b"
    assert and_more([value, "b"]) == f"{'x' * (QUOTED - 4)} ..., b"
    assert len(guess(value, [value])) < 2 * QUOTED
    assert bounded(f"first\n{value}\nlast").split("\n")[::2] == ["first", "last"]


@pytest.mark.parametrize("part", ["what", "where", "expected", "todo"])
def test_an_error_is_short_whatever_it_quotes(part):
    parts = {"what": "is wrong"} | {part: f"begin {'x' * 10**6} end"}
    text = str(SightwordError(parts.pop("what"), **parts))
    assert len(text) < 1100
    assert "begin x" in text
    assert "x end" in text
