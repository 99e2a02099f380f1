"""Normalisation, the vocabulary of characters or words, and the words of the unit treebank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sightword.captions.units import is_token, join, split
from sightword.captions.vocabulary import PAD, UNKNOWN, Normalisation, Vocabulary
from sightword.errors import CaptionsError

texts = st.lists(st.text(min_size=1), min_size=1)


@given(texts)
def test_decode_inverts_encode_on_known_characters(known: list[str]) -> None:
    vocabulary = Vocabulary.build(known)
    for text in known:
        assert vocabulary.decode(vocabulary.encode(text)) == text


@given(texts, st.text())
def test_ids_are_dense_sorted_and_never_padding(known: list[str], text: str) -> None:
    vocabulary = Vocabulary.build(known)
    assert list(vocabulary.tokens) == sorted(set("".join(known)))
    for character, number in zip(text, vocabulary.encode(text), strict=True):
        assert number == (vocabulary.tokens.index(character) + 2 if character in vocabulary.tokens else UNKNOWN)
        assert number != PAD


@given(
    texts,
    st.lists(st.text(st.characters(exclude_categories=())), max_size=5),
    st.sampled_from(["character", "word", "treebank"]),
)
def test_rows_are_the_ids_of_each_text(known: list[str], others: list[str], unit: Any) -> None:
    vocabulary = Vocabulary.build(["a", *known], normalise=Normalisation(whitespace="collapse"), unit=unit)
    rows = vocabulary.rows([*known, *others])
    assert [row.tolist() for row in rows] == [vocabulary.encode(text) for text in [*known, *others]]


@given(texts)
def test_a_saved_vocabulary_is_read_back_unchanged(known: list[str]) -> None:
    vocabulary = Vocabulary.build(known, normalise=Normalisation(case="lower", full_stop="add"))
    again = Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json())))
    assert again == vocabulary


def test_rare_characters_become_unknown() -> None:
    vocabulary = Vocabulary.build(["aab", "ac"], min_count=2)
    assert vocabulary.tokens == ("a",)
    assert vocabulary.encode("abc") == [2, UNKNOWN, UNKNOWN]
    assert vocabulary.decode([0, 2, 1]) == "a\N{REPLACEMENT CHARACTER}"
    with pytest.raises(CaptionsError, match="no character occurs 9 times"):
        Vocabulary.build(["aab"], min_count=9)
    with pytest.raises(CaptionsError, match="the id 3 is not in this vocabulary; expected 0 to 2"):
        vocabulary.decode([3])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A dog runs .", ["A", "dog", "runs", "."]),
        ("A dog's ball.", ["A", "dog", "'", "s", "ball", "."]),
        ("  t-shirt\n3 x_y !?", ["t", "-", "shirt", "3", "x_y", "!", "?"]),
        ("Été 犬 псы", ["Été", "犬", "псы"]),
        (" \t", []),
    ],
)
def test_words_are_runs_of_letters_and_digits_or_single_other_signs(text: str, words: list[str]) -> None:
    assert split(text, "word") == words
    assert split(text, "character") == list(text)


@given(st.text())
def test_only_white_space_is_lost_between_words(text: str) -> None:
    words = split(text, "word")
    assert "".join(words) == "".join(text.split())
    assert all(is_token(word, "word") for word in words)


@pytest.mark.parametrize(
    ("normalise", "text", "expected"),
    [
        (Normalisation(), " A  Dog\n", " A  Dog\n"),
        (Normalisation(case="lower"), "A Dog .", "a dog ."),
        (Normalisation(whitespace="collapse"), " A \t dog\n", "A dog"),
        (Normalisation(full_stop="add"), "A dog", "A dog ."),
        (Normalisation(full_stop="add"), "一只狗。", "一只狗。"),
        (Normalisation(unicode="NFC"), "scho\u0308n", "schön"),
        (Normalisation(full_stop="add"), "A dog . ", "A dog .  ."),
        (Normalisation(unicode="NFKC"), "\ufb01n", "fin"),
        (Normalisation(case="fold_capitals"), "A DOG RUNS .", "a dog runs ."),
        (Normalisation(case="fold_capitals"), "A DOG runs .", "A DOG runs ."),
        (Normalisation(case="fold_capitals"), "A", "A"),
    ],
)
def test_normalisation(normalise: Normalisation, text: str, expected: str) -> None:
    assert normalise(text) == expected


def test_a_vocabulary_normalises_before_it_encodes() -> None:
    vocabulary = Vocabulary.build(["AB"], normalise=Normalisation(case="lower", full_stop="add"))
    assert vocabulary.tokens == (" ", ".", "a", "b")
    assert vocabulary.decode(vocabulary.encode("Ba")) == "ba ."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, r"schema = 2; expected 1"),
        ({"unit": "syllable"}, "unit = 'syllable'; expected 'character' or 'word'"),
        ({"unit": "word", "tokens": ["a b"]}, "not a list of single words"),
        ({"pad": 1}, "pad = 1"),
        ({"tokens": ["b", "a"]}, "not sorted"),
        ({"tokens": []}, "tokens are empty, repeated or not sorted"),
        ({"tokens": ["ab"]}, "not a list of single characters"),
        ({"normalise": None}, "normalise has missing or unknown keys"),
        (
            {"normalise": {"unicode": "NFD", "case": "keep", "whitespace": "keep", "full_stop": "add"}},
            "unicode = 'NFD'",
        ),
    ],
)
def test_a_damaged_vocabulary_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps(Vocabulary.build(["ab"]).to_json() | change))
    with pytest.raises(CaptionsError, match=f"vocabulary.json: .*{message}"):
        Vocabulary.load(path)


def test_a_missing_or_truncated_vocabulary_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CaptionsError, match="does not exist"):
        Vocabulary.load(tmp_path / "vocabulary.json")
    Vocabulary.build(["ab"]).save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json").tokens == ("a", "b")
    (tmp_path / "vocabulary.json").write_text('{"schema": 1,')
    with pytest.raises(CaptionsError, match="not valid JSON"):
        Vocabulary.load(tmp_path / "vocabulary.json")


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
