"""Looking after a store of several users: each removes what is their own."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

import pytest
from kept_features import as_bytes, damage, fill, folder_of, identity, read, segment_files

from pipeline import cli
from sightword.storage import maintenance
from sightword.storage.store import Store


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def test_files_of_others_are_left_alone(store) -> None:
    fill(store, identity(), range(20), segments=3)
    kind = folder_of(store)
    features = store.place.folder / "features"
    others = [features / "train/part-0.parquet", features / "lost+found/x", kind / "mine.parquet",
              kind / ".profile", kind / ".snapshot/1"]  # fmt: skip
    long_ago = time.time() - 100 * 24 * 3600
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
        os.utime(path, (long_ago, long_ago))
    maintenance.prune(store)
    maintenance.prune(store, unused_days=-1)
    assert all(path.read_bytes() == b"mine" for path in others)
    assert segment_files(store) == []


def test_a_segment_that_the_file_system_keeps_back_is_left_alone(store, monkeypatch) -> None:
    fill(store, identity(), range(20), segments=2)

    real = Path.read_bytes

    def refused(path: Path) -> bytes:
        if path.suffix == ".parquet":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    assert maintenance.prune(store).segments == 0
    assert len(segment_files(store)) == 2


def become(monkeypatch) -> None:
    """Another user, for whom all that is here already is another's."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


def test_what_others_made_is_left_to_them(store, monkeypatch) -> None:
    features = fill(store, identity(), range(60), segments=12)
    damage(
        segment_files(store)[0],
        next(v for v in features.values() if v.tobytes() in segment_files(store)[0].read_bytes()),
    )
    folder = folder_of(store)
    leftover = folder / f".{'b' * 32}.parquet.y.tmp"
    leftover.write_bytes(b"half")
    os.utime(leftover, (0, 0))
    before = sorted((path.name, path.read_bytes()) for path in folder.iterdir())
    become(monkeypatch)
    for options in ({}, {"unused_days": -1.0}, {"remove": identity().name[:5]}, {"dry_run": True}):
        done = maintenance.prune(store, **options)
        assert done.others in (12, 13)  # of a kind that goes, the name is no file to count
        assert (done.kinds, done.segments, done.leftovers, done.bytes) == (0, 0, 0, 0)
        assert sorted((path.name, path.read_bytes()) for path in folder.iterdir()) == before
    monkeypatch.undo()
    assert len(read(store, features)) == 55


def test_one_prunes_what_is_ones_own_beside_what_is_others(store, monkeypatch) -> None:
    features = fill(store, identity(), range(20), segments=2)
    theirs = segment_files(store)
    features |= fill(store, identity(), range(20, 40), segments=4)
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        state = list(real(path))
        state[stat.ST_UID] = 2 if path in theirs else 1
        return os.stat_result(state)

    monkeypatch.setattr(os, "geteuid", lambda: 1)
    monkeypatch.setattr(Path, "lstat", lstat)
    done = maintenance.prune(store)
    assert (done.segments, done.others) == (4, 2)
    assert len(segment_files(store)) == 3
    assert read(store, features) == as_bytes(features)
    done = maintenance.prune(store, remove=identity().name)
    assert (done.kinds, done.others) == (0, 2)
    assert segment_files(store) == theirs
    assert next(maintenance.survey(store)).damaged == []  # its name stays


def test_others_files_go_on_request_but_where_the_sticky_bit_is(store, monkeypatch) -> None:
    fill(store, identity(), range(60), segments=12)
    folder = folder_of(store)
    become(monkeypatch)
    folder.chmod(0o1755)
    assert maintenance.prune(store, others=True).others == 12
    folder.chmod(0o755)
    done = maintenance.prune(store, others=True)
    assert (done.segments, done.others) == (12, 0)
    assert maintenance.prune(store, remove=identity().name, others=True).kinds == 1
    assert not folder.exists()


def test_a_kind_that_is_closed_to_this_user(store, monkeypatch) -> None:
    features = fill(store, identity(), range(3))
    closed = folder_of(store, identity("vgg19"))
    fill(store, identity("vgg19"), range(3))
    become(monkeypatch)
    real = type(closed).iterdir

    def iterdir(path):
        if path == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    monkeypatch.setattr(type(closed), "iterdir", iterdir)
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed)
    found = {kind.name: kind for kind in maintenance.survey(store)}
    assert found[identity().name].features == len(features)
    assert "Permission denied" in found[closed.name].damaged[0]
    assert maintenance.prune(store).others == 2


def test_the_commands_tell_what_is_others(store, monkeypatch, capsys) -> None:
    fill(store, identity(), range(6), segments=3)
    monkeypatch.setenv("SIGHTWORD_STORE", str(store.place.folder))
    become(monkeypatch)
    assert cli.main(["store", "prune"]) == 0
    assert "3 files of other users stay as they are" in capsys.readouterr().out
    assert cli.main(["store", "prune", "--remove", identity().name]) == 1
    assert "removed 0 kinds" in capsys.readouterr().out
    assert cli.main(["store", "prune", "--remove", identity().name, "--others"]) == 0
    assert "removed 1 kinds" in capsys.readouterr().out
