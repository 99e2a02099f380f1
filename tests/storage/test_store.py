"""The store, in a folder and in a bucket: what comes out went in under that key, and what went in stays."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from kept_features import DIMENSION, KIND, OTHER, as_bytes, damage, folder_of, read, segment_files, some, write

from sightword.errors import StoreError
from sightword.storage import maintenance
from sightword.storage import store as module
from sightword.storage.store import IDENTITY, Place, Store


@pytest.fixture
def local(tmp_path) -> Store:
    return Store(tmp_path / "store")


def again(store: Store) -> Store:
    """The same store as another process sees it."""
    return Store(str(store.place))


def segments_of(store: Store) -> list[str]:
    return [name for name in store.place.files(KIND.name) if module.SEGMENT_NAME.fullmatch(name)]


def protect(theirs: Path, monkeypatch) -> None:
    """Let nobody replace a file, as the sticky bit does with a file of another user."""
    real = os.replace

    def replace(source, target):
        if Path(target) == theirs:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(target))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.slow
def test_written_features_are_read(store) -> None:
    assert read(store, some(range(3))) == read(store, []) == {}
    assert store.place.kinds() == list(maintenance.survey(store)) == []
    features = some(range(12))
    keys = list(features)
    for first, last in ((0, 6), (3, 9), (3, 12), (5, 6)):
        write(store, {key: features[key] for key in keys[first:last]})
    assert len(segments_of(store)) == 4
    assert read(again(store), keys) == as_bytes(features)
    assert read(store, keys[4:6]) == as_bytes({key: features[key] for key in keys[4:6]})
    assert read(store, [*keys[:2], *some([99])]) == as_bytes({key: features[key] for key in keys[:2]})


@pytest.mark.slow
def test_kinds_never_mix(store) -> None:
    one, other = some(range(4)), some(range(4, 8), OTHER)
    write(store, one)
    write(store, other, OTHER)
    assert read(store, [*one, *other]) == as_bytes(one)
    assert read(store, [*one, *other], OTHER) == as_bytes(other)
    pictures = [f"{number:064x}" for number in range(8)]
    assert not {KIND.key(each) for each in pictures} & {OTHER.key(each) for each in pictures}
    for kind in (KIND, OTHER):
        assert store.place.read(f"{kind.name}/{IDENTITY}").decode() == kind.as_json() + "\n"
    counts = {kind.identity["backbone"]: kind.features for kind in maintenance.survey(store)}
    assert counts == {"resnet152": 4, "vgg19": 4}


@pytest.mark.slow
@pytest.mark.parametrize("reason", [ValueError, KeyboardInterrupt])
def test_interrupted_work_loses_nothing(store, reason) -> None:
    features = some(range(5))
    with pytest.raises(reason), store.writer(KIND) as writer:
        for key, feature in features.items():
            writer.put(key, feature)
        raise reason
    assert read(again(store), features) == as_bytes(features)


@pytest.mark.slow
def test_prune_merges_small_segments(store, at_once) -> None:
    features = some(range(30))
    write(store, features)
    assert maintenance.prune(store, dry_run=True).segments == len(segments_of(store)) == 30
    done = maintenance.prune(again(store))
    assert (done.segments, done.bytes > 0) == (30, True)
    [segment] = segments_of(store)
    assert read(again(store), features) == as_bytes(features)
    assert maintenance.prune(store) == maintenance.Pruning()
    assert segments_of(store) == [segment]


@pytest.mark.slow
def test_prune_removes_kinds(store) -> None:
    write(store, some(range(3)))
    write(store, some(range(3), OTHER), OTHER)
    assert maintenance.prune(store, unused_days=1).kinds == 0
    assert maintenance.prune(store, remove=KIND.name[:6]).kinds == 1
    assert [kind.name for kind in maintenance.survey(store)] == [OTHER.name]
    assert maintenance.prune(store, unused_days=-1).kinds == 1
    assert list(maintenance.survey(store)) == []
    with pytest.raises(StoreError, match="no kind of feature begins with abc"):
        maintenance.prune(store, remove="abc")


@pytest.mark.slow
def test_two_writers_and_a_pruner_lose_nothing(store, at_once) -> None:
    features = some(range(45))
    keys = list(features)
    writers = [
        threading.Thread(target=write, args=(again(store), {key: features[key] for key in part}))
        for part in (keys[:30], keys[15:])
    ]
    for writer in writers:
        writer.start()
    pruner = again(store)
    while any(writer.is_alive() for writer in writers):
        maintenance.prune(pruner)
        assert read(again(store), keys).items() <= as_bytes(features).items()
    maintenance.prune(store)
    assert read(again(store), keys) == as_bytes(features)


@pytest.mark.parametrize("first", [True, False])
def test_whole_copy_replaces_a_damaged_one(local, caplog, first) -> None:
    features = some(range(6))
    keys = list(features)
    write(local, features)
    write(local, {key: features[key] for key in keys[1:]})
    path = segment_files(local)[0 if first else -1]
    damage(path, features[keys[2]])
    assert read(local, keys[1:]) == as_bytes({key: features[key] for key in keys[1:]})
    if first:
        [warning] = caplog.messages
        assert warning.startswith(f"{path}: its features cannot be used and are ignored (its bytes are not those of")


def test_unreadable_store_is_one_message(local, monkeypatch) -> None:
    features = some(range(3))
    write(local, features)

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(StoreError, match=r"cannot be read \(Permission denied\).*SIGHTWORD_STORE") as caught:
        read(local, features)
    assert str(local.place.folder) in str(caught.value)
    monkeypatch.setattr(Path, "mkdir", refuse)  # root is never refused by a mode
    with pytest.raises(StoreError, match=r"cannot be written \(Permission denied\).*SIGHTWORD_STORE"):
        Store(local.place.folder / "new").writer(KIND)


def test_file_in_place_of_the_store_stays(local) -> None:
    local.place.folder.write_text("mine")
    for work in (lambda: read(local, some(range(2))), lambda: local.writer(KIND)):
        with pytest.raises(StoreError):
            work()
    assert local.place.folder.read_text() == "mine"


def failing(monkeypatch) -> None:
    """No segment can be written."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "write", refuse)


def test_failed_write_is_told_at_once(local, monkeypatch, at_once) -> None:
    failing(monkeypatch)
    with pytest.raises(StoreError) as caught, local.writer(KIND) as writer:
        for number, item in enumerate(some(range(3)).items()):
            assert number == 0
            writer.put(*item)
    message = f"{local.place.folder}: the store cannot be written (No space left on device)"
    assert str(caught.value).startswith(message)
    assert "SIGHTWORD_STORE" in str(caught.value)


@pytest.mark.parametrize("stays_open", [False, True])
def test_first_error_is_raised(local, monkeypatch, caplog, stays_open) -> None:
    failing(monkeypatch)
    with pytest.raises(ValueError, match="the work"), contextlib.ExitStack() as stack:
        writer = stack.enter_context(local.writer(KIND))
        stack.enter_context(writer.flushed() if stays_open else contextlib.nullcontext())
        writer.put(*next(iter(some([1]).items())))
        raise ValueError("the work")
    assert "the store cannot be written" in caplog.text


class Clock:
    """Stands in for the module time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.perf_counter = time.perf_counter

    def monotonic(self) -> float:
        return self.now


def simulate(monkeypatch, *, pictures: int, seconds: float) -> list[tuple[float, int, int]]:
    """A run that computes a picture every so many seconds: the time of each segment, its first picture, its size."""
    clock = Clock()
    written: list[tuple[float, list[int]]] = []

    def keep(_place: object, _kind: str, features: dict[bytes, np.ndarray]) -> None:
        written.append((clock.now, [int.from_bytes(key, "big") for key in features]))

    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "write", keep)
    monkeypatch.setattr(Place, "prepare", lambda place, kind, record: None)
    feature = np.zeros(DIMENSION, np.float32)
    with Store("store").writer(KIND) as writer:
        for number in range(pictures):
            clock.now += seconds
            writer.put(number.to_bytes(32, "big"), feature)
    assert [number for _, numbers in written for number in numbers] == list(range(pictures))
    return [(when, numbers[0], len(numbers)) for when, numbers in written]


@pytest.mark.parametrize("seconds", [0.5, 30.0])
def test_long_run_writes_few_segments_and_loses_little(monkeypatch, seconds) -> None:
    """A run that is killed after t seconds loses at most a second, a twentieth of t or two minutes' work."""
    pictures = int(6 * 3600 / seconds)
    written = simulate(monkeypatch, pictures=pictures, seconds=seconds)
    for when, first, _ in written[:-1]:
        ran = when - 1000.0
        assert ran - seconds * first <= min(max(1.0, 0.05 * ran), 120.0) + 2 * seconds
    # 20 in the first 20 s, then each 1.05 times as late as the one before, from 2400 s on one each two minutes
    assert len(written) <= 20 + 100 + pictures * seconds / 120.0 + 1
    assert len(written) >= pictures * seconds / max(120.0, 2 * seconds)


def test_another_users_damaged_description_is_left(local, monkeypatch) -> None:
    write(local, some(range(5)))
    theirs = folder_of(local) / IDENTITY
    theirs.write_text("damaged")
    protect(theirs, monkeypatch)
    write(local, some(range(5, 9)))
    assert read(local, some(range(9))) == as_bytes(some(range(9)))
    assert theirs.read_text() == "damaged"


def test_another_users_damaged_segment_is_written_by_other_names(local, monkeypatch) -> None:
    write(local, some(range(5)))
    [theirs] = folder_of(local).glob("*.parquet")
    theirs.chmod(0o644)
    theirs.write_bytes(spoilt := theirs.read_bytes()[:-9])
    protect(theirs, monkeypatch)
    write(local, some(range(5)))
    assert read(local, some(range(5))) == as_bytes(some(range(5)))
    assert theirs.read_bytes() == spoilt


def test_segment_without_permission_names_its_owner(local, monkeypatch, caplog) -> None:
    write(local, some(range(3)))

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("sightword.storage.store.pq.read_table", refuse)
    assert read(local, some(range(3))) == {}
    [message] = caplog.messages
    assert "Permission denied" in message
    assert "chmod g+r" in message
    assert "prune" not in message
