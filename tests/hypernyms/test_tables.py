"""Tables of edges and lists of labelled pairs: what is read, and what is one message."""

from __future__ import annotations

import gzip

import pytest

from sightword.errors import CorpusError
from sightword.hypernyms.data.split import read_pairs
from sightword.hypernyms.data.taxonomy import read_edges

BOTH = ("hypernym", "instance_hypernym")
IDS = {"dog": 0, "animal": 1, "thing": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hyponym,hypernym\na,b\nb,c\nc,a\n", "has a cycle: a -> b -> c -> a"),
        ("hyponym,hypernym\na,a\n", "a is its own hypernym"),
    ],
)
def test_a_wrong_table_is_one_message(tmp_path, text, message):
    (tmp_path / "edges.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(CorpusError, match=message):
        read_edges(tmp_path, BOTH)


def test_lists_of_pairs_in_three_layouts(tmp_path):
    (tmp_path / "own.tsv").write_text("label\thyponym\thypernym\n1\tdog\tanimal\n0\tanimal\tdog\n")
    (tmp_path / "li.txt.gz").write_bytes(gzip.compress(b"IsA\tdog\tanimal\t1\nIsA\tanimal\tdog\t0\n"))
    (tmp_path / "n.tsv.vocab").write_text("0\tanimal\n1\tdog\n")
    (tmp_path / "n.tsv.test").write_text("0\t1\n")
    (tmp_path / "n.tsv.test_neg").write_text("1\t0\n")
    (tmp_path / "own.csv").write_text('hyponym, hypernym,label\n"dog", animal, 1\nanimal ,"dog",0\n \n')
    for name, layout in (
        ("own.tsv", "table"),
        ("own.csv", "table"),
        ("li.txt.gz", "li2019"),
        ("n.tsv.test", "ganea2018"),
    ):
        found = read_pairs(tmp_path / name, IDS)
        assert (found.hyponyms.tolist(), found.hypernyms.tolist()) == ([0, 1], [1, 0]), name
        assert (found.labels.tolist(), found.layout) == ([True, False], layout)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hyponym\thypernym\tlabel\ndog\tcat\t1\n", "line 2: no concept cat"),
        ("hyponym\thypernym\tlabel\ndog\tanimal\t2\n", "line 2: the label is '2'; expected 1 or 0"),
    ],
)
def test_a_wrong_list_is_one_message(tmp_path, text, message):
    (tmp_path / "list.tsv").write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_pairs(tmp_path / "list.tsv", IDS)


def test_pairs_labelled_true_and_false_are_kept_with_a_warning(tmp_path, caplog):
    rows = "dog\tanimal\t1\ndog\tthing\t0\ndog\tanimal\t0\n"
    (tmp_path / "list.tsv").write_text(f"hyponym\thypernym\tlabel\n{rows}")
    assert read_pairs(tmp_path / "list.tsv", IDS).labels.tolist() == [True, False, False]
    text = "2 of 3 rows have a pair that is labelled both true and false, first dog -> animal, "
    assert f"{text}{tmp_path / 'list.tsv'}, line 2" in caplog.text


def test_a_vocabulary_is_read_by_its_numbers(tmp_path):
    vocabulary, true, false = (tmp_path / f"n.tsv.{name}" for name in ("vocab", "test", "test_neg"))
    vocabulary.write_text("7\tdog\n0\tthing\n3\tanimal\n")
    true.write_text("3\t7\n")
    false.write_text("7\t0\n")
    found = read_pairs(true, IDS)
    assert (found.hyponyms.tolist(), found.hypernyms.tolist()) == (
        [IDS["dog"], IDS["thing"]],
        [IDS["animal"], IDS["dog"]],
    )
    for text, message in (
        (
            "7\tdog\n3\tanimal\n7\tthing\n",
            r"vocab, line 3: the number '7' stands twice, with the name 'dog' \(.*, line 1\)",
        ),
        ("7\tdog\n3\tanimal\n0\tdog\n", "vocab, line 3: the name 'dog' stands twice, with the number '7'"),
        ("dog\nanimal\n", r"vocab, line 1: has 1 cell; expected 2: number, name"),
        (
            "7\tdog\n3\tanimal\n",
            r"test_neg, line 1: '0' is not in the vocabulary; expected two numbers",
        ),
    ):
        vocabulary.write_text(text)
        with pytest.raises(CorpusError, match=message):
            read_pairs(true, IDS)
    vocabulary.write_text("7\tdog\n0\tthing\n3\tanimal\n")
    false.write_text("3\t7\n")
    assert read_pairs(true, IDS).labels.tolist() == [True, False]
    true.write_text("3\t7\n3\tx\n")
    with pytest.raises(CorpusError, match=r"test, line 2: 'x' is not in the vocabulary"):
        read_pairs(true, IDS)
