"""Files that a user names: what is opened, and what is one message."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from sightword.errors import CorpusError, FileFormatError
from sightword.io import opening
from sightword.io.opening import files_in, lines, opened, read_bytes

TEXT = b"one\r\ntwo \xc2\x85 two\n\nfour"


def test_lines_end_in_lf_or_cr_lf_only(tmp_path: Path) -> None:
    for name, data in (("a.txt", b"\xef\xbb\xbf" + TEXT), ("a.txt.gz", gzip.compress(TEXT))):
        (tmp_path / name).write_bytes(data)
        assert list(lines(tmp_path / name)) == [(1, "one"), (2, "two \x85 two"), (3, ""), (4, "four")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"one\ntwo \xff\n", r"a, line 2: byte 0xff is not UTF-8\. Save the file as UTF-8\."),
        (b"one\ntw\0o\n", r"a, line 2: has a NUL; expected plain text in UTF-8"),
        ("one\ntwo\n".encode("utf-16"), r"a: is UTF-16\. Save the file as UTF-8\."),
        ("\ufeffone\n".encode("utf-16-be"), r"a: is UTF-16"),
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
    for data in (whole[:-4], whole[:40], whole[:30] + bytes(8) + whole[38:], b"plain", whole[:4]):
        (tmp_path / "a.gz").write_bytes(data)
        with pytest.raises(FileFormatError, match=r"a\.gz: cannot be read \(.+\)\. It may have been cut off"):
            read_bytes(tmp_path / "a.gz")


def test_gz_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(300_000)))
    assert len(read_bytes(tmp_path / "a.gz")) == 300_000
    monkeypatch.setattr(opening, "SMALL", 100_000)
    with pytest.raises(FileFormatError, match=r"a\.gz: cannot be read \(it unpacks to more than 100 kB\)"):
        read_bytes(tmp_path / "a.gz")


def test_file_that_is_larger_than_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LARGEST", 1000)
    (tmp_path / "a").write_bytes(bytes(1001))
    with pytest.raises(FileFormatError, match=r"a: cannot be read \(it has more than 1\.0 kB\)"):
        read_bytes(tmp_path / "a")


def test_files_of_macos_and_folders_are_left_out(tmp_path: Path) -> None:
    for name in ("b.csv", "a.tsv", "._b.csv", "c.txt"):
        (tmp_path / name).touch()
    (tmp_path / "d.csv").mkdir()
    assert [file.name for file in files_in(tmp_path, "*.csv", "*.tsv")] == ["a.tsv", "b.csv"]
