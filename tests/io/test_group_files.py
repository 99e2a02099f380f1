"""Files that several users share: the bits they get, and what is never overwritten."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.io import group_files


@pytest.fixture
def mask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_in_an_ordinary_folder_the_mask_decides(tmp_path, mask) -> None:
    for bits, folder, new, common in ((0o022, 0o755, 0o444, 0o644), (0o077, 0o700, 0o400, 0o600)):
        mask(bits)
        place = tmp_path / f"{bits}"
        group_files.write_new(place / "a/new", b"x")
        group_files.write_open(place / "a/open", b"x")
        assert [mode(place / "a"), mode(place / "a/new"), mode(place / "a/open")] == [folder, new, common]


@pytest.mark.parametrize(("bits", "top"), [(0o077, 0o2770), (0o027, 0o3770), (0o002, 0o2775)])
def test_in_a_shared_folder_the_group_gets_what_the_folder_gives_it(tmp_path, mask, bits, top) -> None:
    tmp_path.chmod(top)
    mask(bits)
    group_files.write_new(tmp_path / "a/b/new", b"x")
    group_files.write_open(tmp_path / "a/b/open", b"x")
    for folder in ("a", "a/b"):
        assert mode(tmp_path / folder) & 0o7070 == top & 0o7070
        assert mode(tmp_path / folder) & 0o700 == 0o700
    assert mode(tmp_path / "a/b/new") & 0o770 == 0o440
    assert mode(tmp_path / "a/b/open") & 0o770 == 0o660
    assert mode(tmp_path / "a/b/open") & 0o007 & bits == 0  # what the mask keeps from all the world stays kept
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "new", "open"]


@given(there=st.binary(max_size=20), data=st.binary(max_size=20))
def test_afterwards_it_holds_what_was_asked_for(tmp_path_factory, there, data) -> None:
    path = tmp_path_factory.mktemp("new") / "x"
    path.write_bytes(there)
    group_files.write_new(path, data)
    assert path.read_bytes() == data
    assert os.listdir(path.parent) == ["x"]


def test_many_at_once_make_one_file_and_leave_nothing(tmp_path) -> None:
    tmp_path.chmod(0o2770)
    problems: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(20):
                group_files.write_new(tmp_path / f"{number}/deep/x", b"data" * 1000)
        except OSError as error:
            problems.append(error)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert {path.read_bytes() for path in tmp_path.rglob("x")} == {b"data" * 1000}
    assert len(list(tmp_path.rglob("*"))) == 60


def test_another_who_was_quicker_is_no_error_where_nothing_is_replaced(tmp_path, monkeypatch) -> None:
    path = tmp_path / "x"

    def quicker(source, target) -> None:
        path.write_bytes(b"data")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", quicker)
    group_files.write_new(path, b"data")
    with pytest.raises(PermissionError):
        group_files.write_new(path, b"other")
    assert os.listdir(tmp_path) == ["x"]
