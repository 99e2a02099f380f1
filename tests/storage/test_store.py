"""The store: what comes out went in under that very key, whatever else lies beside it; what went in stays."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time

import numpy as np
import pytest
from kept_features import DIMENSION, KIND, as_bytes, damage, folder_of, read, segment_files, some, write

from sightword.errors import StoreError
from sightword.storage import store as module
from sightword.storage.place import Place
from sightword.storage.store import Store


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def at_once(monkeypatch) -> None:
    """Each feature makes a segment."""
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module, "LAST", 0.0)


# --- reading ---


@pytest.mark.parametrize("first", [True, False])
def test_a_sound_copy_stands_in_for_a_damaged_one(store, caplog, first) -> None:
    features = some(range(6))
    keys = list(features)
    for part in (keys, keys):
        write(store, {key: features[key] for key in part})
        write(store, {key: features[key] for key in keys[1:]})
    path = segment_files(store)[0 if first else -1]
    damage(path, features[keys[2]])
    assert read(store, keys[1:]) == as_bytes({key: features[key] for key in keys[1:]})
    if first:
        [warning] = caplog.messages
        assert warning.startswith(f"{path}: its features cannot be used and are ignored (its bytes are not those of")


def test_a_segment_pruned_while_it_is_read_is_no_error(store, at_once, caplog) -> None:
    features = some(range(5))
    write(store, features)
    reading = store.read(KIND, DIMENSION, features)
    found = dict(zip(*next(reading), strict=True))
    for path in segment_files(store):
        path.unlink()
    for keys, values in reading:
        found |= dict(zip(keys, values, strict=True))
    assert 1 <= len(found) <= 4  # those that were read side by side, fewer on a busy machine
    assert as_bytes(found).items() <= as_bytes(features).items()
    assert caplog.messages == []


def test_a_store_that_cannot_be_read(store, monkeypatch) -> None:
    features = some(range(3))
    write(store, features)

    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(type(store.place.folder), "iterdir", refuse)
    with pytest.raises(StoreError, match=r"cannot be read \(Permission denied\).*SIGHTWORD_STORE") as caught:
        read(store, features)
    assert str(store.place.folder) in str(caught.value)


def test_a_file_in_the_stores_place(tmp_path) -> None:
    (tmp_path / "store").write_text("mine")
    store = Store(tmp_path / "store")
    with pytest.raises(StoreError, match="cannot be read"):
        read(store, some(range(2)))
    with pytest.raises(StoreError, match=r"cannot be written.*SIGHTWORD_STORE"):
        store.writer(KIND)
    assert (tmp_path / "store").read_text() == "mine"


def test_a_store_without_permission_is_refused_before_any_work(store, monkeypatch) -> None:
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(type(store.place.folder), "mkdir", refuse)  # root is never refused by a mode
    with pytest.raises(StoreError, match=r"cannot be written \(Permission denied\).*SIGHTWORD_STORE"):
        store.writer(KIND)


# --- writing ---


def failing(monkeypatch, times: int) -> list[set[bytes]]:
    """The first segments cannot be written; all that were tried."""
    tried: list[set[bytes]] = []

    real = module.write

    def write_or_not(place, kind, features):
        tried.append(set(features))
        if len(tried) <= times:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(place, kind, features)

    monkeypatch.setattr(module, "write", write_or_not)
    return tried


def check_told(store: Store, error: StoreError) -> None:
    assert str(error).startswith(f"{store.place.folder}: the store cannot be written (No space left on device)")
    assert "SIGHTWORD_STORE" in str(error)


def test_a_failed_write_is_told_at_once(store, monkeypatch, at_once) -> None:
    features = some(range(3))
    failing(monkeypatch, 1)
    taken = []
    with pytest.raises(StoreError) as caught, store.writer(KIND) as writer:
        for key, feature in features.items():
            writer.put(key, feature)
            taken.append(key)
    check_told(store, caught.value)
    assert taken == []


@pytest.mark.parametrize("stays_open", [False, True])
def test_the_first_error_is_the_one_told(store, monkeypatch, caplog, stays_open) -> None:
    failing(monkeypatch, 9)
    with pytest.raises(ValueError, match="the work"), contextlib.ExitStack() as stack:
        writer = stack.enter_context(store.writer(KIND))
        stack.enter_context(writer.flushed() if stays_open else contextlib.nullcontext())
        writer.put(*next(iter(some([1]).items())))
        raise ValueError("the work")
    assert "the store cannot be written" in caplog.text


def test_a_reader_beside_writers_sees_only_true_features(store, at_once) -> None:
    features = some(range(60))
    keys = list(features)
    writers = [
        threading.Thread(
            target=write, args=(Store(store.place.folder), {key: features[key] for key in keys[part : part + 40]})
        )
        for part in (0, 20)
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert read(store, keys).items() <= as_bytes(features).items()
    assert read(store, keys) == as_bytes(features)
    assert not list((folder_of(store)).glob(".*"))


class Clock:
    """Stands in for the module time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.perf_counter = time.perf_counter

    def monotonic(self) -> float:
        return self.now


def simulate(monkeypatch, *, pictures: int, seconds: float, dimension: int = DIMENSION, piece: int = 1 << 30):
    """A run that computes a picture every so many seconds: per segment, when it was written and its numbers.

    After each ``piece`` pictures all of them must be in the store.
    """
    clock = Clock()
    written: list[tuple[float, list[int]]] = []
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(
        module,
        "write",
        lambda place, kind, features: written.append((clock.now, [int.from_bytes(key, "big") for key in features])),
    )
    monkeypatch.setattr(Place, "prepare", lambda place, kind, record: None)
    monkeypatch.setattr(Place, "describe", lambda place, kind, record, written: None)
    feature = np.zeros(dimension, np.float32)
    with Store("store").writer(KIND) as writer:
        for number in range(pictures):
            clock.now += seconds
            writer.put(number.to_bytes(32, "big"), feature)
            if (number + 1) % piece == 0:
                writer.flush()
                assert sum(len(numbers) for _, numbers in written) == number + 1
    assert [number for _, numbers in written for number in numbers] == list(range(pictures))
    return written


@pytest.mark.parametrize("seconds", [0.02, 0.5, 30.0])
def test_a_long_run_makes_few_segments_and_a_killed_one_loses_little(monkeypatch, seconds) -> None:
    """Of a run that is killed after t seconds, at most a second, a twentieth of t or two minutes' work is lost."""
    hours = 6
    pictures = min(int(hours * 3600 / seconds), 100_000)
    written = simulate(monkeypatch, pictures=pictures, seconds=seconds)
    for when, numbers in written[:-1]:
        ran = when - 1000.0
        waited = ran - seconds * numbers[0]  # from when its first picture was begun
        assert waited <= min(max(1.0, 0.05 * ran), 120.0) + 2 * seconds
    # 20 in the first 20 s, then each 1.05 times as late as the one before, from 2400 s on one each two minutes
    assert len(written) <= 20 + 100 + pictures * seconds / 120.0 + 1
    assert len(written) >= pictures * seconds / max(120.0, 2 * seconds)


def test_large_features_are_not_gathered_for_long(monkeypatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1 << 22)
    written = simulate(monkeypatch, pictures=40, seconds=0.001, dimension=1 << 16)  # 0.25 MB each
    assert [len(numbers) for _, numbers in written] == [16, 16, 8]
