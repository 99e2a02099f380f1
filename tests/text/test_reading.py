"""Readers of ordered text: breaks, books, compressed files, and each message of a wrong file."""

from __future__ import annotations

import csv
import gzip
import re
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.errors import CorpusError
from sightword.text.reading import BOOK, LONGEST, PASSAGE, SAME, Sentences, wrapped
from sightword.text.settings import TextSettings


def read(path, layout="lines"):
    return list(Sentences(TextSettings(format=layout, path=str(path))))


@given(st.lists(st.lists(st.text("abé.", min_size=1), min_size=1), min_size=1), st.booleans(), st.integers(1, 3))
def test_passages_are_read_back(tmp_path_factory, passages, windows, gap):
    file = tmp_path_factory.mktemp("lines") / "text.txt"
    end = "\r\n" if windows else "\n"
    text = (end * (gap + 1)).join(end.join(passage) for passage in passages)
    file.write_bytes(text.encode())
    wanted = [(line, SAME if place else PASSAGE) for passage in passages for place, line in enumerate(passage)]
    assert read(file) == [(wanted[0][0], BOOK), *wanted[1:]]
    file.write_bytes(b"\xef\xbb\xbf" + text.encode() + end.encode())
    assert read(file) == [(wanted[0][0], BOOK), *wanted[1:]]
    assert read(file, "bookcorpus") == [(line, SAME if place else BOOK) for place, (line, _) in enumerate(wanted)]


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    (tmp_path / "b.txt").write_text("three\n")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n \t\ntwo\n"))
    (tmp_path / "README.md").write_text("not read\n")
    assert read(tmp_path) == [("one", BOOK), ("two", PASSAGE), ("three", BOOK)]
    assert read(tmp_path, "bookcorpus") == [("one", BOOK), ("two", SAME), ("three", BOOK)]
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"three\n"))
    with pytest.raises(CorpusError, match=r"has b\.txt and b\.txt\.gz; expected one of both"):
        read(tmp_path)


def test_books_begin_where_the_table_says(tmp_path):
    (tmp_path / "text.txt").write_text("one\ntwo\n\nthree\n")
    table = tmp_path / "books.csv"
    table.write_text("title,first_line\nA,1\nB,2\nC,3\n")
    assert read(tmp_path) == [("one", BOOK), ("two", BOOK), ("three", BOOK)]
    table.write_text("title,first_line\nA,5\n")
    with pytest.raises(CorpusError, match=r"books\.csv: has a book whose first_line is 5, but text\.txt has 4 lines"):
        read(tmp_path)
    for wrong in ("0", "٣"):
        table.write_text(f"first_line\n{wrong}\n")
        with pytest.raises(CorpusError, match=r"books\.csv, line 2: first_line is .*; expected a whole number from 1"):
            read(tmp_path)
    table.write_text("title,first_line\nA,1\n")
    (tmp_path / "more.txt").write_text("four\nfive\n")
    with pytest.raises(CorpusError, match=r"names the file ; expected a column file: more\.txt, text\.txt"):
        read(tmp_path)
    table.write_text("file,first_line\nmore.txt,2\n")
    assert read(tmp_path)[:3] == [("four", BOOK), ("five", BOOK), ("one", BOOK)]


def test_the_books_have_their_stated_counts(real_data):
    found = read(real_data / "books")
    assert len(found) == 489_954
    assert sum(begins >= PASSAGE for _, begins in found) == 3_812
    assert sum(begins == BOOK for _, begins in found) == 89


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"one\ntwo \xff\n", r"text\.txt, line 2: byte 0xff is not UTF-8. Save the file as UTF-8"),
        (b"one\n" + b"x" * (LONGEST + 1), rf"line 2: has more than {LONGEST} characters; expected one sentence a line"),
        (b"<p>one</p>\ntwo\n", r"text\.txt, line 1: has markup \(1 of the first 2 lines do\); expected plain text"),
        (
            b"A dog.\rIt runs.\r",
            r"text\.txt, line 1: ends in CR, as on old Macs; expected lines that end in LF or CR LF",
        ),
    ],
)
def test_wrong_lines_are_named(tmp_path, raw, message):
    (tmp_path / "text.txt").write_bytes(raw)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path / "text.txt")


def test_the_longest_line_and_a_little_markup_are_read(tmp_path):
    (tmp_path / "text.txt").write_text(
        "\n".join(["\N{GRINNING FACE}" * LONGEST, "a <b> c", "x < y & z > w;"] + ["d"] * 200)
    )
    sentences = Sentences(TextSettings(path=str(tmp_path)))
    assert len(list(sentences)) == 203
    assert (sentences.marked, sentences.first_marked) == (1, f"{tmp_path}/text.txt, line 2")


def test_a_carriage_return_further_down_is_white_space(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"one\r\r\ntwo\rthree\r\n")
    assert [line for line, _ in read(tmp_path / "text.txt")] == ["one\r", "two\rthree"]


WORDS = [f"{'abcdefghij'[: 1 + place * 7 % 10]}" for place in range(4000)]


@pytest.mark.parametrize("layout", ["lines", "bookcorpus"])
def test_lines_that_are_broken_at_a_width_are_counted(tmp_path, layout):
    paragraphs = [textwrap.fill(" ".join(WORDS[start : start + 100]), 72) for start in range(0, 4000, 100)]
    (tmp_path / "text.txt").write_text("\n\n".join(paragraphs))
    (tmp_path / "none.txt").write_text("A dog.\nIt runs.\n" * 200)
    sentences = Sentences(TextSettings(format=layout, path=str(tmp_path)))
    lines = sum(paragraph.count("\n") for paragraph in paragraphs)
    list(sentences)
    assert 0.9 * lines <= sentences.wrapped <= lines
    assert sentences.first_wrapped == str(tmp_path / "text.txt")


def test_one_sentence_a_line_is_not_broken_at_a_width(real_data):
    for file in ("senteval/downstream/SNLI/s2.dev", "books/sentences.txt.gz"):
        raw = (real_data / file).read_bytes()
        text = (gzip.decompress(raw) if file.endswith(".gz") else raw).decode()
        lengths = Counter(len(line) for line in text.split("\n"))
        assert wrapped(lengths) == 0


def test_damaged_and_missing_files_are_named(tmp_path):
    whole = gzip.compress("\n".join(f"sentence {number}" for number in range(5000)).encode())
    file = tmp_path / "text.txt.gz"
    for raw in (whole[:-20], whole[: len(whole) // 2], whole[:200] + bytes(50) + whole[250:], b"plain text\n"):
        file.write_bytes(raw)
        with pytest.raises(CorpusError, match=r"text\.txt\.gz: cannot be read \(.+\)\. It may have been"):
            read(file)
    with pytest.raises(CorpusError, match=r"absent: does not exist. Put the text there, one sentence a line"):
        read(tmp_path / "absent")
    file.unlink()
    with pytest.raises(CorpusError, match=r"has no text file; expected \.txt or \.txt\.gz"):
        read(tmp_path)
    (tmp_path / "text.txt").mkdir()
    with pytest.raises(CorpusError, match="has no text file"):
        read(tmp_path)


@pytest.fixture
def novels(repository: Path) -> list[dict[str, str]]:
    with open(repository / "recipes/lists/novels.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_novel_has_a_source_with_a_commit_and_a_hash(novels: list[dict[str, str]]) -> None:
    assert len({novel["repo"] for novel in novels}) == len(novels) == 89
    for novel in novels:
        assert re.fullmatch("[0-9a-f]{40}", novel["commit"]), novel["title"]
        assert re.fullmatch("[0-9a-f]{64}", novel["sha256"]), novel["title"]
        assert novel["source"].startswith("https://")
        assert 1868 <= int(novel["year"]) <= 1925


def test_each_novel_begins_where_the_text_has_a_break(novels: list[dict[str, str]], real_data: Path) -> None:
    with gzip.open(real_data / "books/sentences.txt.gz", "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    firsts = [int(novel["first_line"]) for novel in novels]
    assert firsts[0] == 1
    assert not any(lines[first - 2] for first in firsts[1:])
    for novel, first, end in zip(novels, firsts, [*firsts[1:], len(lines) + 1], strict=True):
        assert sum(map(bool, lines[first - 1 : end - 1])) == int(novel["sentences"]), novel["title"]
