"""The unit treebank: contractions, typographic signs, and text that is split already."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sightword.captions.units import is_token, join, split
from sightword.captions.vocabulary import Normalisation, Vocabulary
from sightword.errors import CaptionsError

SIGNS = st.text("abcdnt'’\"`“”.-—…,:1 2MrU_é\u00ad\u200b\n", max_size=40)
PARTS = st.lists(st.sampled_from(["he", "n't", "'s", "’d", "'ve", "cannot", "''", "-", ".", "Mr.", "1,0"])).map("".join)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A dog's ball.", "A dog 's ball ."),
        ("I don’t, can't; WON'T cannot", "I do n't , ca n't ; WO N'T can not"),
        ("He'd've said they're his dogs'.", "He 'd 've said they 're his dogs ' ."),
        ("I'dn't've said he'sn't", "I 'd n't 've said he 's n't"),
        ("“Hello—you…” ‘t-shirt’ o’clock", "\" Hello -- you ... \" ' t-shirt ' o'clock"),
        ("`` foo '' 1914–18", '" foo " 1914-18'),
        ("Mr. J. of the U.S. at 12:30 a.m., $1,000.50!", "Mr. J . of the U.S. at 12:30 a.m. , $ 1,000.50 !"),
        ("20th co\u00adop 50% (é) B⸺", "20th coop 50 % ( é ) B --"),
        ("it ca n't be `` so ''", 'it ca n\'t be " so "'),
        (" \t", ""),
    ],
)
def test_words_are_those_of_the_treebank(text: str, words: str) -> None:
    assert split(text, "treebank") == words.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Zwei Ma\u0308dchen, müde.", "Zwei Ma\u0308dchen , müde ."),
        ("l'été à Brno", "l ' été à Brno"),
        ("кошка ещё-спит", "кошка ещё - спит"),
        ("كَلْبٌ يَجْري؟", "كَلْبٌ يَجْري ؟"),
        ("हिन्दी में", "हिन्दी में"),
        ("می\u200cرود", "می\u200cرود"),
        ("一只狗。犬が", "一只狗 。 犬が"),
    ],
)
def test_words_of_all_scripts_are_whole_with_their_marks(text: str, words: str) -> None:
    assert split(text, "word") == words.split(" ")


@given(SIGNS | PARTS | st.text())
@example("x's-y don't-care ''' --- .... cannot's 1.2.3x")
def test_split_text_is_split_in_the_same_way(text: str) -> None:
    words = split(text, "treebank")
    assert split(join(words, "treebank"), "treebank") == words
    assert all(is_token(word, "treebank") for word in words)


@given(st.text(st.characters(max_codepoint=127, exclude_characters="`'"), max_size=30))
def test_only_white_space_of_plain_text_is_lost(text: str) -> None:
    assert "".join(split(text, "treebank")) == "".join(text.split())


def test_no_two_words_and_no_typographic_sign_are_one_token() -> None:
    assert not any(is_token(token, "treebank") for token in ("don't", "”", "a b", "", "''", 3))
    value = Vocabulary(("do", "n't"), unit="treebank").to_json()
    assert Vocabulary.from_json(value).encode("don't") == [2, 3]
    with pytest.raises(CaptionsError, match="tokens is not a list of single words"):
        Vocabulary.from_json(value | {"tokens": ["don't"]})


@given(st.lists(st.text("abcdef", min_size=1), min_size=1), st.integers(1, 7), st.integers(1, 3))
def test_a_vocabulary_of_a_size_has_the_most_frequent_tokens(texts: list[str], size: int, least: int) -> None:
    every = "".join(texts)
    frequent = [token for token in sorted(set(every)) if every.count(token) >= least]
    kept = sorted(frequent, key=lambda token: (-every.count(token), token))[:size]
    if kept:
        assert Vocabulary.build(texts, size=size, min_count=least).tokens == tuple(sorted(kept))
        assert Vocabulary.build(texts, min_count=least).tokens == tuple(frequent)
    else:
        with pytest.raises(CaptionsError, match=f"no character occurs {least} times"):
            Vocabulary.build(texts, size=size, min_count=least)


def test_case_is_lowered_before_words_are_split() -> None:
    vocabulary = Vocabulary.build(["DON'T go"], normalise=Normalisation(case="lower"), unit="treebank")
    assert vocabulary.tokens == ("do", "go", "n't")
    assert vocabulary.decode(vocabulary.encode("Don’t run")) == "do n't \N{REPLACEMENT CHARACTER}"
