"""The rules of tables and numbers, each once for all readers."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest

from sightword.errors import CorpusError
from sightword.io.json_records import json_lines, member
from sightword.io.tables import Table, number, whole

WORDS = Table(("word", ("kind", "class"), "note"), CorpusError, optional=("note",), empty=("note",))


def rows(folder: Path, text: str, table: Table = WORDS) -> list[list[str]]:
    (folder / "a.csv").write_bytes(text.encode())
    return [row for _, row in table.rows(folder / "a.csv")]


@pytest.mark.parametrize(
    "text",
    [
        "word,kind\ndog,animal\ncar,thing\n",
        'kind,word\r\nanimal, "dog"\r\nthing ,car\r\n\r\n',
        "\ufeffx\tclass\tword\n1\tanimal\tdog \n\n2\t thing\tcar",
    ],
)
def test_columns_are_found_by_name_and_blanks_do_not_count(tmp_path: Path, text: str) -> None:
    assert rows(tmp_path, text) == [["dog", "animal", ""], ["car", "thing", ""]]


def test_quotation_marks_are_rules_with_commas_and_signs_with_tabs(tmp_path: Path) -> None:
    assert rows(tmp_path, 'word,kind,note\n"a, b",c,"He said ""no""\non two lines"\nd,e,\n') == [
        ["a, b", "c", 'He said "no"\non two lines'],
        ["d", "e", ""],
    ]
    assert rows(tmp_path, 'word\tkind\n"dog\tan "animal"\n') == [['"dog', 'an "animal"', ""]]


def test_any_table_that_csv_writes_is_read_back(tmp_path: Path) -> None:
    draw = random.Random(1)
    for _ in range(50):
        cells = [["".join(draw.choices('ab,"\n\x85\u2028 é', k=draw.randint(1, 6))) + "x" for _ in "12"] for _ in "123"]
        out = io.StringIO()
        csv.writer(out, lineterminator=draw.choice(("\n", "\r\n"))).writerows([["word", "kind"], *cells])
        text = out.getvalue()
        assert [row[:2] for row in rows(tmp_path, text)] == [[cell.strip() for cell in row] for row in cells]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a\.csv, line 1: has no column word \(it has: none\)"),
        ("word;kind\na;b\n", r"a\.csv, line 1: has no column word \(it has: word;kind\)\. Semicolons separate"),
        ("word,x\na,b\n", r"has no column kind or class \(it has: word, x\)"),
        ("word,kind,word\na,b,c\n", "line 1: has word in 2 columns; expected one of each"),
        ("word,kind,class\na,b,c\n", "line 1: has kind in 2 columns: kind and class"),
        ("word,kind\n", r"a\.csv: has no rows"),
        ("word,kind\na,b\n\na\n", r"a\.csv, line 4: has 1 cell; expected 2, as in the header"),
        ("word,kind\na,b,c\n", "line 2: has 3 cells; expected 2"),
        ("word,kind\n  ,b\n", "line 2: word is empty. Fill the cell in, or delete the row"),
        ('word,kind\n"a\nb",c\n"d,e\nf,g\n', r"line 4: is not valid CSV \(unexpected end of data\)"),
        ('word,kind\n"a" b,c\n', "line 2: is not valid CSV"),
        (f"word,kind\n{200_000 * 'a'},b\n", "line 2: is not valid CSV"),
        ("word,kind\na\rb,c\n", "line 2: is not valid CSV"),
    ],
)
def test_wrong_table_is_one_message_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        rows(tmp_path, text)


@pytest.mark.parametrize(("text", "value"), [("5", 5.0), ("-1e-3", -0.001), (".5", 0.5), ("+2.", 2.0)])
def test_number_in_ascii_digits_is_read(text: str, value: float) -> None:
    assert number(text, "a", "the score", CorpusError) == value


@pytest.mark.parametrize("text", ["", " 5", "5 ", "1_0", "nan", "inf", "٣", "1e999", "0x1", "1,5", "9", "-0.1"])
def test_other_text_is_no_number(text: str) -> None:
    with pytest.raises(CorpusError, match=r"a, line 2: the score is .*; expected a number from 0 to 5"):
        number(text, "a, line 2", "the score", CorpusError, low=0, high=5)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.0", "1_0", "²", "9" * 19, " 1"])
def test_other_text_is_no_whole_number(text: str) -> None:
    with pytest.raises(CorpusError, match=r"first_line is .*; expected a whole number from 1"):
        whole(text, "a", "first_line", CorpusError, low=1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", r"a, line 2: is '\[1\]'; expected a JSON object"),
        ("{", "line 2: is '{'"),
        ("[" * 100_000, r"line 2: is '\[+ \.\.\.; expected a JSON object"),
        ('{"label": ' + "1" * 5000 + "}", r"line 2: is '\{\"label\": 1+ \.\.\.; expected"),
        ('{"label": "a", "label": "b"}', "line 2: the key 'label' stands twice"),
        ('{"label": 1}', "line 2: label is 1; expected a text"),
        ('{"text": "a"}', r"line 2: has no key 'label' \(it has: text\)"),
        (r'{"label": "\ud83d"}', "line 2: has half a character in label"),
    ],
)
def test_wrong_json_line_is_one_message(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a").write_text(f'{{"label": "é"}}\n{line}\n\n', encoding="utf-8")
    found = json_lines(tmp_path / "a", CorpusError)
    where, record = next(found)
    assert member(record, "label", str, where, CorpusError) == "é"
    with pytest.raises(CorpusError, match=message):
        member(next(found)[1], "label", str, f"{tmp_path / 'a'}, line 2", CorpusError)
