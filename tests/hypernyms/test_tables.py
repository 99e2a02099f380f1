"""Tables of edges and lists of labelled pairs: what is read, and what is one message."""

from __future__ import annotations

import gzip

import pytest

from sightword.errors import CorpusError
from sightword.hypernyms.data.split import read_pairs
from sightword.hypernyms.data.taxonomy import closure, read_edges

BOTH = ("hypernym", "instance_hypernym")
IDS = {"dog": 0, "animal": 1, "thing": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hyponym,hypernym\na,b\nb,c\nc,a\n", "has a cycle: a -> b -> c -> a"),
        ("hyponym,hypernym\na,a\n", "a is its own hypernym"),
        ("hyponym,hypernym\n", "has no rows"),
        ("", "has no column hyponym"),
        ("hyponym,word\na,b\n", "has no column hypernym"),
        ("hyponym,hypernym\na\n", "line 2: has 1 cell; expected 2"),
        ("hyponym,hypernym\n,b\n", r"edges.csv, line 2: hyponym is empty"),
        ("hyponym,hypernym\na,b\n\na, \n", "line 4: hypernym is empty"),
    ],
)
def test_a_wrong_table_is_one_message(tmp_path, text, message):
    (tmp_path / "edges.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(CorpusError, match=message):
        read_edges(tmp_path, BOTH)


@pytest.mark.parametrize(
    "text",
    [
        "hyponym,hypernym\npuppy, dog\n dog ,animal\n",
        'hyponym,"hypernym"\r\n"puppy", "dog"\r\ndog,animal\r\n\r\n',
        'hyponym\thypernym\n"puppy"\tdog \ndog\t animal\n\n',
    ],
)
def test_blanks_and_quotation_marks_around_a_name_are_no_part_of_it(tmp_path, text):
    (tmp_path / "edges.csv").write_bytes(text.encode())
    taxonomy = read_edges(tmp_path, BOTH)
    assert (taxonomy.names, len(closure(taxonomy)[0])) == (["animal", "dog", "puppy"], 3)


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
        ("hyponym\thypernym\tlabel\ndog\tanimal\n", "line 2: has 2 cells; expected 3"),
        ("hyponym\thypernym\tlabel\ndog\t \t1\n", "line 2: hypernym is empty"),
        (f"hyponym\thypernym\tlabel\n{'x' * 10**5}\tanimal\t1\n", r"line 2: no concept x{76} \.\.\.$"),
    ],
)
def test_a_wrong_list_is_one_message(tmp_path, text, message):
    (tmp_path / "list.tsv").write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_pairs(tmp_path / "list.tsv", IDS)


def test_a_pair_that_repeats_its_label_is_kept_as_it_stands(tmp_path):
    (tmp_path / "list.tsv").write_text("hyponym\thypernym\tlabel\n" + "dog\tanimal\t0\n" * 2 + "dog\tthing\t1\n")
    found = read_pairs(tmp_path / "list.tsv", IDS)
    assert (found.hypernyms.tolist(), found.labels.tolist()) == ([1, 1, 2], [False, False, True])


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
