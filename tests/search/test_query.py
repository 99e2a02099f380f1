"""What may be typed, and what is said of the rest."""

from __future__ import annotations

import csv
import io
from unicodedata import category, east_asian_width, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli.search_text import cut
from sightword.captions.vocabulary import UNKNOWN, Normalisation, Vocabulary
from sightword.errors import SearchError
from sightword.search.query import LONGEST, Query, as_csv, check_query, shown

CHARACTERS = Vocabulary.build(["a dog runs ."], normalise=Normalisation(case="lower", full_stop="add"))
WORDS = Vocabulary.build(["a dog runs ."], unit="word")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        (" \t\n", "empty"),
        ("\N{ZERO WIDTH JOINER}\N{SOFT HYPHEN}", "empty"),
        ("a" * 100_000, "100,000 characters"),
        ("a" * (LONGEST + 1), "1,001 characters"),
        ("a \udcff", r"UTF-8 \(character 3\)"),
        ("дом", "“д”, “о”, “м”"),
        ("\x1b[31m", "x1b"),
        (" ".join("ÄÖÜÉÈÂÊÎÔÛ"), "“ü”, .* and 2 more"),
    ],
)
def test_what_cannot_be_asked_says_why(text, what):
    with pytest.raises(SearchError, match=what):
        check_query(text, CHARACTERS)


def test_a_full_stop_that_is_added_makes_no_sentence_known():
    with pytest.raises(SearchError, match="no character of the query is known"):
        check_query("дом", CHARACTERS)
    assert check_query("дом .", CHARACTERS).unknown == ("д", "о", "м")


def test_unknown_words_and_letters_are_told_once():
    assert check_query("A DOG ééx", CHARACTERS).note == "The characters “é”, “x” are unknown to this encoder."
    assert check_query("a cat and a dog", WORDS).unknown == ("cat", "and")
    assert check_query("a cat", WORDS).note == "The word “cat” is unknown to this encoder."
    assert check_query(f"a {'x' * 99}", WORDS).note.startswith(f"The word “{'x' * 74} ...” is")
    assert check_query(" a dog ", WORDS) == check_query("a dog", WORDS)
    assert check_query("a dog", WORDS).note == ""
    with pytest.raises(SearchError, match="no word of the query is known to this encoder: “cats”"):
        check_query("cats", WORDS)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_query_in_another_unicode_form_than_the_captions_is_read_in_theirs(form):
    vocabulary = Vocabulary.build([normalize(form, "über Żółć tiếng हिन्दी 한국어 .")])
    text = "über tiếng 한국"
    for typed in ("NFC", "NFD"):
        assert check_query(normalize(typed, text), vocabulary) == Query(normalize(form, text))


def test_an_unknown_mark_is_told_with_a_letter_to_stand_on():
    assert (
        check_query("a dog\N{COMBINING DIAERESIS}", CHARACTERS).note == "The character “◌̈” is unknown to this encoder."
    )


@given(st.text(max_size=60), st.sampled_from([CHARACTERS, WORDS]))
def test_what_is_let_through_has_something_that_is_known(text, vocabulary):
    try:
        query = check_query(text, vocabulary)
    except SearchError:
        return
    known = [number for number in vocabulary.encode(query.text) if number != UNKNOWN]
    assert known
    assert not set(query.unknown) & set(vocabulary.tokens)


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
