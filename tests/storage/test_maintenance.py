"""Maintenance of a store: survey, verify and prune find damage, lose nothing, and leave the files of others."""

from __future__ import annotations

import errno
import itertools
import json
import os
import stat
import time
from pathlib import Path

import pytest
from kept_features import DIMENSION, as_bytes, damage, fill, folder_of, identity, read, segment_files
from odd_files import silent_pipe

from pipeline import cli
from sightword.errors import StoreError
from sightword.storage import maintenance
from sightword.storage.store import Store

LONG_AGO = time.time() - 100 * 24 * 3600


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def become_another(monkeypatch) -> None:
    """Another user, for whom all that is here already is another's."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


def content(folder: Path) -> list[tuple[str, bytes]]:
    return sorted((path.name, path.read_bytes()) for path in folder.iterdir())


def test_survey_counts_each_feature_once(store) -> None:
    fill(store, identity(), range(20), segments=3)
    fill(store, identity(), range(5))
    fill(store, identity("vgg19"), range(4))
    kinds = {kind.identity["backbone"]: kind for kind in maintenance.survey(store)}
    assert (kinds["resnet152"].features, kinds["resnet152"].segments) == (20, 4)
    assert (kinds["vgg19"].features, kinds["vgg19"].damaged) == (4, [])
    assert kinds["resnet152"].bytes == sum(path.stat().st_size for path in folder_of(store).glob("*.parquet"))


def test_prune_removes_damage_and_nothing_else(store) -> None:
    features = fill(store, identity(), range(20), segments=2)
    path, keys = segment_files(store)[0], list(features)
    lost = next(set(keys[part::2]) for part in range(2) if keys[part] in path.read_bytes())
    damage(path, features[next(iter(lost))])
    [kind] = maintenance.survey(store)
    assert (kind.features, len(kind.damaged)) == (10, 1)
    maintenance.prune(store)
    [kind] = maintenance.survey(store)
    assert (kind.features, kind.damaged, kind.segments) == (10, [], 1)
    assert read(store, features) == as_bytes({key: features[key] for key in features if key not in lost})


def test_reader_finds_what_is_merged_meanwhile(store) -> None:
    features = fill(store, identity(), range(60), segments=12)
    reading = store.read(identity(), DIMENSION, list(features))
    first, _ = next(reading)
    maintenance.prune(store)
    assert len(first) + sum(len(keys) for keys, _ in reading) == 60


@pytest.mark.parametrize("error", [MemoryError("malloc"), PermissionError(13, "Permission denied")])
def test_segment_that_cannot_be_read_now_stays(store, monkeypatch, error) -> None:
    features = fill(store, identity(), range(20), segments=2)

    def refuse(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("sightword.storage.store.pa.BufferReader", refuse)
        assert maintenance.prune(store).segments == 0
    assert read(store, features) == as_bytes(features)
    passes, real = itertools.count(), maintenance.segments

    def first_time(place, kind, files, **options):
        with monkeypatch.context() as patch:
            if next(passes):
                patch.setattr("sightword.storage.store.pa.BufferReader", refuse)
            yield from real(place, kind, files, **options)

    monkeypatch.setattr(maintenance, "segments", first_time)
    maintenance.prune(store)
    monkeypatch.undo()
    assert read(store, features) == as_bytes(features)


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_text("garbage")])
def test_reading_writes_a_lost_description_again(store, lose) -> None:
    features = fill(store, identity(), range(4))
    lose(folder_of(store) / "identity.json")
    assert next(maintenance.survey(store)).damaged
    read(store, list(features))
    assert not next(maintenance.survey(store)).damaged


def test_description_of_another_kind_is_told(store) -> None:
    fill(store, identity(), range(4))
    path = folder_of(store) / "identity.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "backbone": "vgg19"}))
    [kind] = maintenance.survey(store)
    assert kind.identity == {}
    assert "not what the folder's name says" in kind.damaged[0]


def test_ambiguous_name_removes_nothing(store) -> None:
    for number in range(40):  # two of them begin with the same digit
        fill(store, identity(f"net{number}"), range(1))
    with pytest.raises(StoreError, match=r"kinds begin with"):
        for start in "0123456789abcdef":
            maintenance.prune(store, remove=start, dry_run=True)


def test_prune_removes_kinds_by_age_and_name(store) -> None:
    old, new = identity("vgg19"), identity()
    features = fill(store, old, range(4))
    fill(store, new, range(4))
    described = folder_of(store, old) / "identity.json"
    os.utime(described, (LONG_AGO, LONG_AGO))
    read(store, features, old)  # is a use
    assert maintenance.prune(store, unused_days=1).kinds == 0
    os.utime(described, (LONG_AGO, LONG_AGO))
    assert maintenance.prune(store, unused_days=101).kinds == 0
    assert maintenance.prune(store, unused_days=99, dry_run=True).kinds == 1
    assert folder_of(store, old).exists()
    assert maintenance.prune(store, unused_days=99).kinds == 1
    assert [kind.name for kind in maintenance.survey(store)] == [new.name]


def test_leftovers_of_killed_processes_go_after_a_day(store) -> None:
    fill(store, identity(), range(4))
    folder = folder_of(store)
    fresh, old = folder / f".{'a' * 32}.parquet.x.tmp", folder / f".{'b' * 32}.parquet.y.tmp"
    probe = folder / ".probe.0123456789ab.tmp"
    for path in (fresh, old, probe):
        path.write_bytes(b"half")
    for path in (old, probe):
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert maintenance.prune(store).leftovers == 2
    assert [path.exists() for path in (fresh, old, probe)] == [True, False, False]


def test_commands(store, capsys, monkeypatch) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        code = cli.main(["store", *arguments])
        return code, capsys.readouterr().out

    monkeypatch.setenv("SIGHTWORD_STORE", str(store.place.folder))
    assert cli.main(["store", "stats"]) == 1
    assert "there is no store here" in capsys.readouterr().err
    fill(store, identity(), range(20), segments=2)
    code, shown = run("stats")
    assert code == 0
    assert "resnet152 avgpool, weights 000000000000, fp32, cpu, code 111111111111" in shown
    assert "ten crop(s) of 224, L2" in shown
    assert "20 features in 2 segments" in shown
    assert run("verify")[0] == 0
    segment_files(store)[0].chmod(0o644)
    segment_files(store)[0].write_bytes(b"damaged")
    code, shown = run("verify")
    assert code == 1
    assert "damaged: " in shown
    assert "10 features are sound, 1 places are damaged" in shown
    assert "see `sightword store verify`" in run("stats")[1]
    assert "would merge 2 segments" in run("prune", "--dry-run")[1]
    assert "merged 2 segments" in run("prune")[1]
    assert run("verify", "--store", str(store.place.folder))[0] == 0
    become_another(monkeypatch)
    code, shown = run("prune", "--remove", identity().name)
    assert code == 1
    assert "removed 0 kinds" in shown
    assert "files of other users stay as they are" in shown
    assert "removed 1 kinds" in run("prune", "--remove", identity().name[:4], "--others")[1]
    unused = (["store", "prune", "--unused", number] for number in ("-1", "nan", "inf"))
    for wrong in (["store"], *unused, ["store", "burn"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(wrong)
        assert caught.value.code == 2


def test_pipe_with_the_name_of_a_segment_is_not_waited_for(store, capsys) -> None:
    features = fill(store, identity(), range(20))
    pipe = folder_of(store) / f"{'0' * 32}.parquet"
    with silent_pipe(pipe):
        assert read(store, features) == as_bytes(features)
        assert cli.main(["store", "verify", "--store", str(store.place.folder)]) == 1
        assert f"damaged: {pipe}: all or some features (it is a pipe or a device" in capsys.readouterr().out
        assert maintenance.prune(store).segments == 2
    assert not pipe.exists()
    assert read(store, features) == as_bytes(features)


def test_prune_leaves_foreign_files(store) -> None:
    fill(store, identity(), range(20), segments=3)
    kind = folder_of(store)
    features = store.place.folder / "features"
    others = [features / "train/part-0.parquet", features / "lost+found/x", kind / "mine.parquet", kind / ".snapshot/1"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
        os.utime(path, (LONG_AGO, LONG_AGO))
    maintenance.prune(store)
    maintenance.prune(store, unused_days=-1)
    assert all(path.read_bytes() == b"mine" for path in others)
    assert segment_files(store) == []


def test_prune_leaves_files_of_other_users(store, monkeypatch) -> None:
    features = fill(store, identity(), range(60), segments=12)
    first = segment_files(store)[0]
    damage(first, next(v for v in features.values() if v.tobytes() in first.read_bytes()))
    folder = folder_of(store)
    leftover = folder / f".{'b' * 32}.parquet.y.tmp"
    leftover.write_bytes(b"half")
    os.utime(leftover, (0, 0))
    before = content(folder)
    become_another(monkeypatch)
    for options in ({}, {"unused_days": -1.0}, {"remove": identity().name[:5]}, {"dry_run": True}):
        done = maintenance.prune(store, **options)
        assert done.others in (12, 13)  # the description of a kind that goes, too
        assert (done.kinds, done.segments, done.leftovers, done.bytes) == (0, 0, 0, 0)
        assert content(folder) == before
    assert len(read(store, features)) == 55


def test_prune_merges_the_users_segments_among_others(store, monkeypatch) -> None:
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
    assert next(maintenance.survey(store)).damaged == []  # the description stays


def test_sticky_bit_protects_others_on_request_too(store, monkeypatch) -> None:
    fill(store, identity(), range(60), segments=12)
    folder = folder_of(store)
    become_another(monkeypatch)
    folder.chmod(0o1755)
    assert maintenance.prune(store, others=True).others == 12
    folder.chmod(0o755)
    done = maintenance.prune(store, others=True)
    assert (done.segments, done.others) == (12, 0)


def test_kind_closed_to_this_user_is_told_and_left(store, monkeypatch) -> None:
    fill(store, identity(), range(3))
    closed = folder_of(store, identity("vgg19"))
    fill(store, identity("vgg19"), range(3))
    become_another(monkeypatch)
    real = Path.iterdir

    def iterdir(path):
        if path == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed)
    kinds = {kind.name: kind for kind in maintenance.survey(store)}
    assert kinds[identity().name].features == 3
    assert "Permission denied" in kinds[closed.name].damaged[0]
    assert maintenance.prune(store).others == 2
