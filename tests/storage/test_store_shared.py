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
