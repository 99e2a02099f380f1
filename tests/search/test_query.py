"""What may be typed, and what is said of the rest."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.captions.vocabulary import UNKNOWN, Normalisation, Vocabulary
from sightword.errors import SearchError
from sightword.search.query import LONGEST, Query, check_query, shown

CHARACTERS = Vocabulary.build(["a dog runs ."], normalise=Normalisation(case="lower", full_stop="add"))
WORDS = Vocabulary.build(["a dog runs ."], unit="word")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("\N{ZERO WIDTH JOINER}\N{SOFT HYPHEN}", "empty"),
        ("a" * (LONGEST + 1), "1,001 characters"),
        ("a \udcff", r"UTF-8 \(character 3\)"),
        ("дом", "“д”, “о”, “м”"),
        ("\x1b[31m", "x1b"),
    ],
)
def test_query_that_cannot_be_asked_says_why(text, what):
    with pytest.raises(SearchError, match=what):
        check_query(text, CHARACTERS)


def test_added_full_stop_makes_no_sentence_known():
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
    assert check_query("a dog\N{COMBINING DIAERESIS}", CHARACTERS).note.startswith("The character “◌̈” is unknown")
    with pytest.raises(SearchError, match="no word of the query is known to this encoder: “cats”"):
        check_query("cats", WORDS)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_query_takes_the_unicode_form_of_the_captions(form):
    vocabulary = Vocabulary.build([normalize(form, "über Żółć tiếng हिन्दी 한국어 .")])
    text = "über tiếng 한국"
    for typed in ("NFC", "NFD"):
        assert check_query(normalize(typed, text), vocabulary) == Query(normalize(form, text))


@given(st.text(max_size=60), st.sampled_from([CHARACTERS, WORDS]))
def test_accepted_query_has_a_known_token(text, vocabulary):
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
        ("Un chien !\nIl court\N{NO-BREAK SPACE}!", "Un chien!\nIl court\N{NO-BREAK SPACE}!"),
    ],
)
def test_caption_is_shown_without_spaces_of_a_tokeniser(caption, read):
    assert shown(caption) == read
