"""The rules of files that a user names, of tables and of numbers, each once for all readers."""

from __future__ import annotations

import csv
import gzip
import io
import os
import random
from pathlib import Path
from typing import Any

import pytest

from sightword.errors import CorpusError, FileFormatError
from sightword.images.decode import RejectError, decode
from sightword.io import opening
from sightword.io.files import json_lines, member, read_table
from sightword.io.opening import files_in, lines, opened, read_bytes
from sightword.io.tables import Table, check_bare, number, whole

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


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
def test_quoted_table_with_tabs_is_read_as_csv(tmp_path: Path, quoting: Any) -> None:
    out, cells = io.StringIO(), [["word", "kind"], ['a "b" c', "d\te"], ["f", "g"]]
    csv.writer(out, delimiter="\t", quoting=quoting, lineterminator="\n").writerows(cells)
    assert [row[:2] for row in rows(tmp_path, out.getvalue())] == cells[1:]
    column = 'word\tkind\n"a"\tb\n"c"\td\n'  # may be what the texts say
    assert [row[:2] for row in rows(tmp_path, column)] == [['"a"', "b"], ['"c"', "d"]]


@pytest.mark.parametrize("wrap", ['"{}"', "\u201c{}\u201d", "[{}]", "{{{}}}"])
def test_texts_that_all_stand_in_a_wrap_are_refused(wrap: str) -> None:
    texts = [wrap.format(text) for text in ("A dog .", "A cat .")]
    with pytest.raises(CorpusError, match=r"a: all texts stand in .*A dog.*; expected the texts alone"):
        check_bare(["", *texts], "a", CorpusError)
    check_bare([*texts, "A cow ."], "a", CorpusError)
    check_bare(['"Stop" signs on "Main Street"', '"A" and "B"'], "a", CorpusError)
    check_bare(texts[:1], "a", CorpusError)


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
        (f"word,kind\n{200_000 * 'a'},b\n", r"line 2: is not valid CSV .*, or shorten the cell\."),
        ("word,kind\na\rb,c\n", "line 2: is not valid CSV"),
        ("word,kind\na,b\nword,kind\nc,d\n", "line 3: repeats the header"),
        ("kind\tword\nb\ta\nKIND\t word\n", "line 3: repeats the header"),
        ("x,word,kind\n1,a,b\n2, Kind,word\n", "line 3: repeats the header. Delete the line"),
    ],
)
def test_wrong_table_is_one_message_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        rows(tmp_path, text)


@pytest.mark.parametrize(("text", "value"), [("5", 5.0), ("-1e-3", -0.001), (".5", 0.5), ("+2.", 2.0)])
def test_number_in_ascii_digits_is_read(text: str, value: float) -> None:
    assert number(text, "a", "the score", CorpusError) == value


@pytest.mark.parametrize("text", ["", " 5", "1_0", "nan", "٣", "1e999", "0x1", "9", "-0.1"])
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


TEXT = b"one\r\ntwo \xc2\x85 two\n\nfour"


PUBLISHED = {
    "STSBenchmark/sts-test.csv": 1379,
    "STSBenchmark-multi/stsb-de-dev.csv.gz": 1500,
    "STS12-en-test/STS.input.MSRpar.txt": 750,
    "Flickr_8k.devImages.txt": 1000,
    "snli/snli_1.0_dev.jsonl": 10000,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_file_that_was_cut_is_told(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, count = tmp_path / name, PUBLISHED[name]
    path.parent.mkdir(exist_ok=True)
    for rows in (count, count // 2):
        path.write_bytes(gzip.compress(b"row\n" * rows) if path.suffix == ".gz" else b"row\n" * rows)
        assert len(list(lines(path))) == rows
    told = f"{path}: has {count // 2} of the {count} published lines; was it cut off? Fetch it again."
    assert [record.getMessage() for record in caplog.records] == [told]


FOREIGN = {
    "a pointer of Git LFS: run `git lfs pull`": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "a web page": b"\xef\xbb\xbf\n<!-- saved -->\n<HTML>",
    "XML, such as the error of a server": b'<?xml version="1.0"?>\n<Error>',
    "HEIC": b"\0\0\0\x18ftypheix",
    "JPEG XL": b"\xff\x0a\0",
    "a document of Photoshop": b"8BPS\0\1",
    "SVG, a drawing without pixels": b'<?xml version="1.0"?><svg>',
    "a document in PDF or RTF": b"%PDF-1.7\n",
    "an archive in RAR or 7z": b"Rar!\x1a\x07",
}


NO_TEXT = {
    "packed with gzip": gzip.compress(b"x"),
    "packed with bzip2, xz or zstd": b"(\xb5/\xfd",
    "a zip archive, as workbooks of Excel are": b"PK\x03\x04",
    "UTF-16 or UTF-32": "one,two,three".encode("utf-16-le"),
    "a picture or a binary table": b"PAR1\x15\0",
}


@pytest.mark.parametrize("kind", [*FOREIGN, *NO_TEXT])
def test_file_of_a_foreign_kind_is_named(tmp_path: Path, kind: str) -> None:
    data = (FOREIGN | NO_TEXT)[kind]
    for name in ("a.csv", "a.csv.gz", "a.parquet")[: 3 if kind in FOREIGN else 1]:
        (tmp_path / name).write_bytes(gzip.compress(data) if name == "a.csv.gz" else data)
        read = read_bytes if name[2] == "c" else lambda path: read_table(path, ["a"], foreign=True)
        with pytest.raises(FileFormatError, match=f"{name}: is {kind}"):
            read(tmp_path / name)
    if kind in FOREIGN:
        with pytest.raises(RejectError, match=f"not_a_picture: it is {kind}"):
            decode(data, exif=False, max_pixels=1)


def test_lines_end_in_lf_or_cr_lf_only(tmp_path: Path) -> None:
    for name, data in (("a.txt", b"\xef\xbb\xbf" + TEXT), ("a.txt.gz", gzip.compress(TEXT))):
        (tmp_path / name).write_bytes(data)
        assert list(lines(tmp_path / name)) == [(1, "one"), (2, "two \x85 two"), (3, ""), (4, "four")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"one\ntwo \xff\n", r"a, line 2: byte 0xff is not UTF-8\. Save the file as UTF-8\."),
        (b"one\ntw\0o\n", r"a, line 2: has a NUL; expected plain text in UTF-8"),
        ("one\ntwo\n".encode("utf-16"), r"a: is UTF-16 or UTF-32\. Save it as UTF-8\."),
        (b"one\rtwo\r", r"a, line 1: ends in CR, as on old Macs; expected lines that end in LF or CR LF"),
        (b"one\n" + 11 * b"x", r"a, line 2: has more than 10 bytes"),
    ],
)
def test_wrong_line_is_told_with_its_number(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(CorpusError, match=message):
        list(lines(tmp_path / "a", CorpusError, longest=10))


def test_pipe_folder_and_missing_file_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gz")
    for name, message in (
        ("pipe.gz", "a pipe or a device, not a regular file"),
        (".", "Is a directory"),
        ("none", "does not exist"),
    ):
        with pytest.raises(FileFormatError, match=message), opened(tmp_path / name):
            pass


def test_damaged_gz_is_one_message_with_a_remedy(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"%d,%d\n" % (x, x * x) for x in range(999)), mtime=0)
    damaged, other = r"cannot be read \(.+\)\. It may have been cut off", r"and its name ends in \.gz\. Fetch it again"
    cut = (whole[:-4], whole[:40], whole[:30] + bytes(8) + whole[38:], whole[:4])
    for data, message in (
        *((one, damaged) for one in cut),
        (b"plain", f"is not packed, {other}"),
        (b"", f"is empty, {other}"),
    ):
        (tmp_path / "a.gz").write_bytes(data)
        with pytest.raises(FileFormatError, match=rf"a\.gz: {message}"):
            read_bytes(tmp_path / "a.gz")


def test_gz_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(300_000)))
    assert len(read_bytes(tmp_path / "a.gz")) == 300_000
    monkeypatch.setattr(opening, "SMALL", 100_000)
    with pytest.raises(FileFormatError, match=r"a\.gz: cannot be read \(it unpacks to more than 100 kB\)"):
        read_bytes(tmp_path / "a.gz")


def test_files_of_macos_and_folders_are_left_out(tmp_path: Path) -> None:
    for name in ("b.csv", "a.tsv", "._b.csv", "c.txt"):
        (tmp_path / name).touch()
    (tmp_path / "d.csv").mkdir()
    assert [file.name for file in files_in(tmp_path, "*.csv", "*.tsv")] == ["a.tsv", "b.csv"]
