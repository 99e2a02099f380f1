"""Pinned hashes: a file that sha256sum reads and writes."""

from __future__ import annotations

import hashlib
import subprocess

import pytest

from pipeline.downloads.pins import add_pins, read_pins
from sightword.errors import DownloadError

ONE, TWO = "1" * 64, "2" * 64


def test_what_is_pinned_is_read_again(tmp_path):
    path = tmp_path / "checksums.txt"
    assert read_pins(path) == {}
    assert add_pins(path, {"b/x.zip": TWO, "a/x.zip": ONE}) == ["a/x.zip", "b/x.zip"]
    assert read_pins(path) == {"a/x.zip": ONE, "b/x.zip": TWO}


def test_lines_that_are_there_stay_as_they_are(tmp_path):
    path = tmp_path / "checksums.txt"
    mine = f"# ours\n\n{ONE.upper()} *a/x.zip"
    path.write_text(mine)
    assert add_pins(path, {"a/x.zip": TWO}) == []
    assert path.read_text() == mine
    assert add_pins(path, {"b/x.zip": TWO}) == ["b/x.zip"]
    assert path.read_text() == f"{mine}\n{TWO}  b/x.zip\n"


def test_sha256sum_agrees(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/words.txt").write_text("words")
    add_pins(tmp_path / "checksums.txt", {"own/words.txt": hashlib.sha256(b"words").hexdigest()})
    subprocess.run(["sha256sum", "--check", "--strict", "checksums.txt"], cwd=tmp_path, check=True, capture_output=True)
    written = subprocess.run(["sha256sum", "own/words.txt"], cwd=tmp_path, check=True, capture_output=True).stdout
    (tmp_path / "by_it.txt").write_bytes(written)
    assert read_pins(tmp_path / "by_it.txt") == read_pins(tmp_path / "checksums.txt")


@pytest.mark.parametrize("line", ["no hash", f"{ONE}", f"{ONE[:-1]}  a", f"{ONE}  a\n{TWO}  a"])
def test_what_is_no_pin_is_told_with_its_line(tmp_path, line):
    path = tmp_path / "checksums.txt"
    path.write_text(f"# a\n{line}\n")
    with pytest.raises(DownloadError, match=r"checksums.txt, line [23]:"):
        read_pins(path)
