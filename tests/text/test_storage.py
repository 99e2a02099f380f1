"""The stored text: rows, triples and pairs against plain loops, and damaged files."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.captions.vocabulary import Vocabulary
from sightword.errors import CaptionsError, FileFormatError
from sightword.io.hdf5 import seal
from sightword.text import storage
from sightword.text.storage import Text, write_text

WORDS = Vocabulary(("a", "b", "c"), unit="treebank")


def text_of(lengths, passage, split, max_tokens=4):
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    tokens = np.arange(offsets[-1], dtype=np.uint16) % 3 + 2
    return Text(WORDS, tokens, offsets, np.array(passage, np.int32), np.array(split, np.uint8), max_tokens)


def plain_runs(text, split, length):
    """The first sentences of fitting runs, by the definition."""
    return [
        first
        for first in range(len(text) - length + 1)
        if all(
            1 <= len(text.row(place)) < text.max_tokens
            and text.split[place] == split
            and text.passage[place] == text.passage[first]
            for place in range(first, first + length)
        )
    ]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=40), st.integers(1, 50))
def test_triples_and_pairs_are_runs_in_one_passage_and_split(sentences, chunk):
    passage = np.cumsum([begins for _, begins, _ in sentences])
    text = text_of([length for length, _, _ in sentences], passage, [held for _, _, held in sentences])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "CHUNK", chunk)
        for split in (0, 1):
            triples, pairs = text.triples(split), text.pairs(split)
            assert (triples - 1).tolist() == plain_runs(text, split, 3)
            assert pairs.tolist() == plain_runs(text, split, 2)
            assert triples.dtype == pairs.dtype == np.int64


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    parts = [np.array([2, 3]), np.array([4, 2, 2])]
    write_text(folder, WORDS, parts, [1, 0, 4], np.array([0, 0, 7]), np.array([0, 0, 1]), max_tokens=5)
    return folder


@pytest.fixture
def copy(written, tmp_path):
    shutil.copytree(written, tmp_path / "text")
    return tmp_path / "text"


def test_what_was_written_is_read_back(written):
    text = Text.open(written)
    assert [row.tolist() for row in text.rows([2, 0, 1])] == [[3, 4, 2, 2], [2], []]
    assert text.row(2).dtype == np.int64
    assert (text.tokens.dtype, text.offsets.tolist()) == (np.uint16, [0, 1, 1, 5])
    assert (text.passage.tolist(), text.split.tolist(), text.max_tokens) == ([0, 0, 7], [0, 0, 1], 5)
    assert (text.vocabulary, len(text)) == (WORDS, 3)
    assert not text.tokens.flags.writeable


def test_many_words_need_four_bytes(tmp_path):
    words = Vocabulary(tuple(sorted(chr(0x4E00 + place) * 3 for place in range(20_000))), unit="word")
    many = Vocabulary(tuple(sorted({*words.tokens, *(f"x{number}" for number in range(50_000))})), unit="word")
    write_text(tmp_path, many, [np.array([70_001])], [1], np.array([0]), np.array([0]))
    text = Text.open(tmp_path)
    assert (text.tokens.dtype, text.row(0).tolist()) == (np.uint32, [70_001])


def test_a_missing_or_changed_file_is_named(copy: Path):
    path = copy / "text.h5"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(FileFormatError, match=r"text\.h5: is damaged or was changed"):
        Text.open(copy)
    path.write_bytes(raw[:100])
    with pytest.raises(FileFormatError, match="is damaged"):
        Text.open(copy)
    path.unlink()
    with pytest.raises(FileFormatError, match=r"does not exist. Run `make grounded`"):
        Text.open(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.attrs.update({"complete": False}), "complete: False"),
        (lambda file: file.attrs.update({"schema": 9}), "has the schema 9"),
        (lambda file: file.attrs.pop("schema"), "is damaged"),
        (lambda file: file.attrs.update({"max_tokens": float("inf")}), "is damaged"),
    ],
)
def test_a_file_of_another_format_is_refused(copy, change, message):
    with h5py.File(copy / "text.h5", "r+") as file:
        change(file)
    seal(copy / "text.h5")
    with pytest.raises(FileFormatError, match=message):
        Text.open(copy)


def test_another_vocabulary_is_refused(copy):
    Vocabulary(("a", "b"), unit="treebank").save(copy / "vocabulary.json")
    with pytest.raises(FileFormatError, match=r"belongs to another vocabulary\.json"):
        Text.open(copy)
    (copy / "vocabulary.json").unlink()
    with pytest.raises((FileFormatError, CaptionsError), match="does not exist"):
        Text.open(copy)
