"""Readers of ordered text: breaks, books, compressed files, wrong files; the sample's stories; the list of novels."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
import textwrap
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.captions.units import split
from sightword.corpus.sample.scene import load_world, random_scene, stream
from sightword.corpus.sample.sentences import captions
from sightword.errors import CorpusError
from sightword.settings import LONGEST_TEXT
from sightword.text.reading import BOOK, PASSAGE, SAME, Sentences, stories, wrapped
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
    table.write_text("title,first_line\nA,1\nB,\n")
    with pytest.raises(CorpusError, match=r"books\.csv, line 3: first_line is empty"):
        read(tmp_path)
    table.write_text("first_line\n0\n")
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
        (
            b"one\n" + b"x" * (LONGEST_TEXT + 1),
            rf"line 2: has more than {LONGEST_TEXT} characters; expected one sentence a line",
        ),
        (b"one\n\n" + "é".encode() * 50 * LONGEST_TEXT, rf"text\.txt, line 3: has more than {4 * LONGEST_TEXT} bytes"),
        (b"<p>one</p>\ntwo\n", r"text\.txt, line 1: has markup \(1 of the first 2 lines do\); expected plain text"),
        (b"one\nR&amp;B\n", r"text\.txt, line 2: has markup"),
    ],
)
def test_wrong_lines_are_named(tmp_path, raw, message):
    (tmp_path / "text.txt").write_bytes(raw)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path / "text.txt")


def test_the_longest_line_and_a_little_markup_are_read(tmp_path):
    (tmp_path / "text.txt").write_text(
        "\n".join(["\N{GRINNING FACE}" * LONGEST_TEXT, "a <b> c", "x < y & z > w;"] + ["d"] * 200)
    )
    sentences = Sentences(TextSettings(path=str(tmp_path)))
    assert len(list(sentences)) == 203
    assert (sentences.marked, sentences.first_marked) == (1, f"{tmp_path}/text.txt, line 2")


def test_a_carriage_return_further_down_is_white_space(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"one\r\r\ntwo\rthree\r\n")
    assert [line for line, _ in read(tmp_path / "text.txt")] == ["one\r", "two\rthree"]


WORDS = [f"{'abcdefghij'[: 1 + place * 7 % 10]}" for place in range(4000)]


@pytest.mark.parametrize("width", [60, 79])
def test_lines_that_are_broken_at_a_width_are_counted(tmp_path, width):
    paragraphs = [textwrap.fill(" ".join(WORDS[start : start + 100]), width) for start in range(0, 4000, 100)]
    (tmp_path / "text.txt").write_text("\n\n".join(paragraphs))
    (tmp_path / "none.txt").write_text("A dog.\nIt runs.\n" * 200)
    sentences = Sentences(TextSettings(path=str(tmp_path)))
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


def test_missing_files_are_named(tmp_path):
    with pytest.raises(CorpusError, match=r"absent: does not exist. Put the text there, one sentence a line"):
        read(tmp_path / "absent")
    with pytest.raises(CorpusError, match=r"has no text file; expected \.txt or \.txt\.gz"):
        read(tmp_path)


@pytest.fixture(scope="module")
def world(repository):
    return load_world(repository / "data/raw/sample")


def test_neighbours_do_not_depend_on_the_colour(world):
    """In a world whose colours have changed names, the same stories have other colours and nothing else."""
    names = list(world.colours)
    turned = world.model_copy(
        update={
            "colours": {name: world.colours[other] for name, other in zip(names, names[1:] + names[:1], strict=True)}
        }
    )
    words = {word for colour in world.colours.values() for word in colour.words}
    changed = 0
    for own, other in zip(stories(world, 50, 0), stories(turned, 50, 0), strict=True):
        coloured = [bool(words & set(sentence.split())) for sentence in own]
        assert not any(itertools.starmap(lambda one, two: one and two, itertools.pairwise(coloured)))
        for sentence, renamed, has in zip(own, other, coloured, strict=True):
            assert has == (sentence != renamed)
            assert [word for word in sentence.split() if word not in words] == [
                word for word in renamed.split() if word not in words
            ]
            changed += has
    assert changed > 100


def test_stories_are_short_and_have_the_words_of_captions(world):
    told = list(stories(world, 400, 0))
    assert told == list(stories(world, 400, 0)) != list(stories(world, 400, 1))
    assert {len(story) for story in told} == set(range(8, 13))
    words = Counter(word for story in told for sentence in story for word in split(sentence.lower(), "treebank"))
    assert 3_800 < sum(map(len, told)) < 4_200
    assert 110 < len(words) < 160
    assert max(len(split(sentence, "treebank")) for story in told for sentence in story) < 30
    seen = [
        split(text.lower(), "treebank")
        for text in captions(random_scene(world, stream(world, 0)), world, stream(world, 1))
    ]
    things = {word for colour in world.colours.values() for word in colour.words}
    assert things <= words.keys()
    assert any(things & set(caption) for caption in seen)


@pytest.fixture
def novels(repository) -> list[dict[str, str]]:
    with open(repository / "recipes/lists/novels.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_novel_has_a_source_with_a_commit_and_a_hash(novels: list[dict[str, str]]) -> None:
    assert len({novel["repo"] for novel in novels}) == len(novels) == 89
    for novel in novels:
        assert re.fullmatch("[0-9a-f]{40}", novel["commit"]), novel["title"]
        assert re.fullmatch("[0-9a-f]{64}", novel["sha256"]), novel["title"]
        assert novel["source"].startswith("https://")
        assert 1868 <= int(novel["year"]) <= 1925


def test_each_novel_begins_where_the_text_has_a_break(novels: list[dict[str, str]], real_data) -> None:
    with gzip.open(real_data / "books/sentences.txt.gz", "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    firsts = [int(novel["first_line"]) for novel in novels]
    assert firsts[0] == 1
    assert not any(lines[first - 2] for first in firsts[1:])
    for novel, first, end in zip(novels, firsts, [*firsts[1:], len(lines) + 1], strict=True):
        assert sum(map(bool, lines[first - 1 : end - 1])) == int(novel["sentences"]), novel["title"]
