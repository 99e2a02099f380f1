from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.encoding import embed


def lengths(sentences):
    return np.array([[len(sentence), 1.0] for sentence in sentences])


def test_each_distinct_sentence_is_encoded_once_by_length():
    calls = []

    def encode(sentences):
        calls.append(sentences)
        return lengths(sentences)

    found = embed(encode, ["bb", "a", "bb", "dddd", "ccc", "a"], chunk=3)
    assert calls == [["dddd", "ccc", "bb"], ["a"]]
    np.testing.assert_array_equal(found.of(["a", "ccc", "a"]), lengths(["a", "ccc", "a"]))


def test_tensors_and_lists_and_whole_numbers_are_taken():
    for convert in (torch.tensor, np.ndarray.tolist, lambda rows: rows.astype(int)):
        np.testing.assert_array_equal(embed(lambda s, c=convert: c(lengths(s)), ["a", "bb"]).of(["bb"]), [[2.0, 1.0]])


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (
            lambda s: np.ones((len(s) + 1, 3)),
            r"3 sentences from 'ccc': .* shape \(4, 3\) of float64; expected numbers of shape \(3, width\)",
        ),
        (lambda s: np.ones(len(s)), r"shape \(3,\) of float64; expected numbers of shape \(3, width\)"),
        (lambda s: np.ones((len(s), 0)), r"shape \(3, 0\)"),
        (lambda s: [["a"]] * len(s), r"shape \(3, 1\) of <U1"),
        (lambda s: lengths(s) * 1j, r"shape \(3, 2\) of complex128"),
        (lambda s: lengths(s) > 1, r"shape \(3, 2\) of bool"),
        (lambda s: None, r"shape \(\) of object"),
        (lambda s: [[1.0] * len(x) for x in s], "vectors differ in width"),
        (
            lambda s: np.where(lengths(s) == 2, np.nan, 1.0),
            r"sentence 'bb': the encoder gave NaN or infinity for 1 of 3",
        ),
    ],
)
def test_an_invalid_result_is_refused(encode, message):
    with pytest.raises(SemanticsError, match=message):
        embed(encode, ["a", "bb", "ccc"])


def test_another_width_in_a_later_call_is_refused():
    with pytest.raises(
        SemanticsError,
        match=r"sentence 'a': .* vectors of width 4 and type float64 after width 5",
    ):
        embed(lambda s: np.ones((len(s), 3 + len(s))), ["a", "bb", "ccc"], chunk=2)


def test_another_type_in_a_later_call_is_refused():
    with pytest.raises(
        SemanticsError, match=r"sentence 'a': .* of width 3 and type float32 after width 3 and type float64"
    ):
        embed(lambda s: np.ones((len(s), 3), float if len(s) > 1 else np.float32), ["a", "bb", "ccc"], chunk=2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_type_is_kept(dtype):
    assert embed(lambda s: lengths(s).astype(dtype), ["a", "bb"]).of(["a"]).dtype == dtype


def test_results_of_common_libraries_are_accepted():
    rows = lengths(["bb", "a"])
    for answer in (
        torch.tensor(rows, requires_grad=True),
        torch.tensor(rows, dtype=torch.bfloat16),
        [torch.tensor(row, requires_grad=True) for row in rows],
        csr_array(rows),
    ):
        np.testing.assert_array_equal(embed(lambda s, answer=answer: answer, ["a", "bb"]).of(["bb", "a"]), rows)


def test_prepare_receives_all_distinct_sentences_once_and_first():
    calls = []

    class Encoder:
        def prepare(self, sentences):
            calls.append(("prepare", sentences))

        def __call__(self, sentences):
            calls.append(("encode", sentences))
            return lengths(sentences)

    embed(Encoder(), ["a", "bb", "a", "ccc"], chunk=2)
    assert calls == [("prepare", ["ccc", "bb", "a"]), ("encode", ["ccc", "bb"]), ("encode", ["a"])]


def test_an_empty_list_of_sentences_is_refused():
    with pytest.raises(SemanticsError, match="no sentence"):
        embed(lengths, [])


def test_vectors_of_zeros_are_logged(caplog):
    with caplog.at_level(logging.WARNING):
        embed(lambda s: lengths(s) * (lengths(s)[:, :1] > 1), ["a", "bb"])
    assert "1 of 2 sentences have a vector of zeros" in caplog.text
