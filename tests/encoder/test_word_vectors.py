"""A bag of words from a file of word vectors."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.encoder.word_vectors import BagOfWords
from sightword.errors import EncoderError, SemanticsError

GLOVE = "the 0.5 -1\ndog 1 2\n. 3e-1 0\n. . . 9 9\nname@domain.com to 8 8\nDog 4 4\ncafé 7 0.25\n2 1 1\n"


@pytest.fixture
def glove(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text(GLOVE)
    return path


def test_a_sentence_is_the_mean_of_its_words_with_a_vector(glove):
    found = BagOfWords(glove)(["the dog", "dog the unknown dog", "café 2"])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[0.75, 0.5], [2.5 / 3, 1.0], [4.0, 0.625]], rtol=1e-7)


def test_a_sentence_of_unknown_words_is_a_full_stop_and_zero_without_one(glove, tmp_path):
    np.testing.assert_allclose(BagOfWords(glove)(["xyzzy plugh"]), [[0.3, 0.0]], rtol=1e-7)
    (tmp_path / "no-stop.txt").write_text("dog 1 2\n")
    np.testing.assert_array_equal(BagOfWords(tmp_path / "no-stop.txt")(["xyzzy", "dog"]), [[0, 0], [1, 2]])


def test_case_is_kept_or_lowered(glove):
    np.testing.assert_array_equal(BagOfWords(glove)(["Dog"]), [[4, 4]])
    np.testing.assert_array_equal(BagOfWords(glove, lower_case=True)(["Dog"]), [[1, 2]])


def test_words_with_spaces_do_not_disturb_other_words(glove):
    np.testing.assert_allclose(BagOfWords(glove)(["."]), [[0.3, 0.0]], rtol=1e-7)
    first = glove.with_name("first.txt")
    first.write_text(". . 9 9\n. 1 2\n")
    np.testing.assert_array_equal(BagOfWords(first)(["."]), [[1, 2]])


def test_the_file_is_read_once_for_all_sentences(glove):
    bag = BagOfWords(glove)
    bag.prepare(["the dog café"])
    glove.unlink()
    np.testing.assert_allclose(bag(["the dog", "café"]), [[0.75, 0.5], [7, 0.25]])


def test_every_layout_gives_the_same_vectors(glove, tmp_path):
    plain = BagOfWords(glove)(["the dog", "café"])
    count = len(GLOVE.splitlines())
    files = {"header.vec": f"{count} 2\n" + GLOVE.replace("\n", " \n"), "dos.txt": GLOVE.replace("\n", "\r\n") + "\r\n"}
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode())
        np.testing.assert_array_equal(BagOfWords(tmp_path / name)(["the dog", "café"]), plain)
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(GLOVE.encode()))
    np.testing.assert_array_equal(BagOfWords(tmp_path / "packed.txt.gz")(["the dog", "café"]), plain)


def test_a_word_with_two_vectors_is_an_error_and_a_repeated_line_is_not(tmp_path):
    (tmp_path / "v.txt").write_text("dog 1 2\ncat 0 0\ndog 3 4\n")
    message = (
        r"v\.txt, line 3: the word 'dog' stands twice, with the vector .*\[1\.0, 2\.0\].*line 1\) .*\[3\.0, 4\.0\]"
    )
    with pytest.raises(SemanticsError, match=message):
        BagOfWords(tmp_path / "v.txt")(["dog cat"])
    np.testing.assert_array_equal(BagOfWords(tmp_path / "v.txt")(["cat"]), [[0, 0]])
    (tmp_path / "v.txt").write_text("dog 1 2\ncat 0 0\ndog 1.0 2\n")
    np.testing.assert_array_equal(BagOfWords(tmp_path / "v.txt")(["dog cat"]), [[0.5, 1.0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "v.txt: is empty"),
        ("dog 1 2\ncat 1\n", "v.txt, line 2: has 1 numbers after a word; expected 2, as in the first line"),
        ("cat 1 2\n\ndog 1 2\n", "v.txt, line 2: is empty"),
        ("cat 1 2\ndog 1 x\n", "v.txt, line 2: the word 'dog' has 'x'; expected finite numbers"),
        *(
            (f"dog {n} 2\ncat {n} 3\n", f"v.txt, line 1: has '{n}' before its")
            for n in ("0x1", "1_0", "nan", "-Infinity")
        ),
        ("3 2\ncat 1 2\ndog 1 2\n", "v.txt: has 2 words, but its first line states 3"),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, message):
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(SemanticsError, match=message):
        BagOfWords(tmp_path / "v.txt")(["dog"])


def test_odd_sentences_and_paths_are_one_message(glove):
    bag = BagOfWords(glove)
    np.testing.assert_array_equal(bag(iter(["the dog"])), bag("the dog"))
    np.testing.assert_array_equal(bag("the \ud83d dog"), bag("the dog"))
    for wrong in (None, b"dog", ["dog", None], [b"dog"], [["dog"]]):
        with pytest.raises(EncoderError, match=r"got the type|is .*, not a text"):
            bag(wrong)
    for wrong in (None, 5, "a\0b", "x" * 5000):
        with pytest.raises(SemanticsError, match=r"the file is .*; expected the path of a file"):
            BagOfWords(wrong)


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1),
        st.lists(st.floats(-10, 10, width=32), min_size=3, max_size=3),
        min_size=1,
    )
)
def test_any_words_are_read_back_as_written(tmp_path_factory, vectors):
    path = tmp_path_factory.mktemp("vectors") / "v.vec"
    lines = [f"{len(vectors)} 3", *(f"{word} {' '.join(map(repr, row))}" for word, row in vectors.items())]
    path.write_bytes("\n".join(lines).encode())
    words = [word for word in vectors if word.split() == [word]]
    found = BagOfWords(path)(words)
    np.testing.assert_array_equal(found, np.array([vectors[word] for word in words], np.float32).reshape(-1, 3))
