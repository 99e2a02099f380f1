"""A store that several users share: read-only, the group's, and not stopped by what is another's."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from kept_features import as_bytes, damage, folder_of, read, segment_files, some, write

from sightword.storage.place import IDENTITY
from sightword.storage.store import Store


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_stored_is_read_only(store) -> None:
    write(store, some(range(3)))
    [path] = segment_files(store)
    assert mode(path) & 0o222 == 0
    assert mode(path) & 0o400


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002])
def test_in_a_setgid_folder_all_is_the_groups_whatever_the_mask(tmp_path, mask) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    lab.chmod(0o3770)
    store = Store(lab / "store")
    before = os.umask(mask)
    try:
        write(store, some(range(3)))
    finally:
        os.umask(before)
    folder = folder_of(store)
    for made in (store.place.folder, store.place.folder / "features", folder):
        assert mode(made) & 0o7770 == 0o3770
    assert mode(folder / IDENTITY) & 0o660 == 0o660
    [path] = segment_files(store)
    assert mode(path) & 0o770 == 0o440
    assert {made.stat().st_gid for made in (folder, path)} == {lab.stat().st_gid}
    assert sorted(made.name for made in folder.iterdir()) == sorted([path.name, IDENTITY])


def deny(monkeypatch, keeps) -> None:
    """A sticky bit: what is another's is not replaced."""

    def replace(source, target):
        if keeps(Path(target)) and Path(target).exists():
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(target))
        real(source, target)

    real = os.replace
    monkeypatch.setattr(os, "replace", replace)


def test_segment_name_taken_by_damaged_file_of_another_is_changed(store, monkeypatch, caplog) -> None:
    features = some(range(5))
    write(store, features)
    [theirs] = segment_files(store)
    damage(theirs, features[next(iter(features))])
    spoilt = theirs.read_bytes()
    deny(monkeypatch, lambda path: path == theirs)
    write(store, features)
    assert theirs.read_bytes() == spoilt
    assert len(segment_files(store)) == 2
    assert read(store, features) == as_bytes(features)
    write(store, features)  # the same again is the same file
    assert len(segment_files(store)) == 2


def test_a_spoilt_name_of_a_kind_that_is_anothers_stops_nobody(store, monkeypatch) -> None:
    features = some(range(5))
    write(store, features)
    theirs = folder_of(store) / IDENTITY
    theirs.write_text("spoilt")
    deny(monkeypatch, lambda path: path == theirs)
    write(store, some(range(5, 9)))
    assert read(store, some(range(9))) == as_bytes(some(range(9)))
    assert theirs.read_text() == "spoilt"


def test_a_segment_that_may_not_be_read_is_told_as_that(store, monkeypatch, caplog) -> None:
    write(store, some(range(3)))

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("sightword.storage.store.pq.read_table", refuse)
    assert read(store, some(range(3))) == {}
    [message] = caplog.messages
    assert "Permission denied" in message
    assert "chmod g+r" in message
    assert "prune" not in message
