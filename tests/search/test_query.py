"""What may be typed, and what is said of the rest."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.captions.normalise import Normalisation
from sightword.captions.vocabulary import UNKNOWN, Vocabulary
from sightword.errors import SearchError
from sightword.search.query import LONGEST, Query, check_query

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
