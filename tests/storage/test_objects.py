"""A store in object storage: few requests, and no wrong feature whatever is lost or damaged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from kept_features import DIMENSION, KIND, as_bytes, read, some, write

from sightword.storage import maintenance
from sightword.storage import store as module
from sightword.storage.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def at_once(monkeypatch) -> None:
    """Each feature makes a segment."""
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module, "LAST", 0.0)


@pytest.fixture
def elsewhere(monkeypatch, tmp_path, address):
    """Makes the store of another machine, which has no copies."""

    def make() -> Store:
        machines = len(list(tmp_path.glob("machine-*")))
        (tmp_path / f"machine-{machines}").mkdir()
        monkeypatch.setenv("SIGHTWORD_CACHE", str(tmp_path / f"machine-{machines}/cache"))
        return Store(address)

    return make


@pytest.fixture
def names(s3_server, address):
    """Returns the keys of the store's objects with an ending."""

    def find(ending: str) -> list[str]:
        prefix = address.removeprefix(f"s3://{s3_server.bucket}/") + "/"
        return [key for key in s3_server.objects(prefix) if key.endswith(ending)]

    return find


def test_requests_are_few(s3_store, front, elsewhere) -> None:
    features = some(range(40))
    write(s3_store, features)
    assert front.requests == {"PUT json": 1, "GET json": 1, "PUT parquet": 40, "PUT manifest": 3}
    other = elsewhere()
    front.clear()
    assert read(other, features) == as_bytes(features)
    assert front.requests == {"LIST": 1, "GET manifest": 3, "GET parquet": 40}
    front.clear()
    assert read(other, features) == as_bytes(features)
    assert front.requests == {"LIST": 1}  # all others are copies now
    other = elsewhere()
    front.clear()
    few = dict(list(features.items())[:2])
    assert read(other, [*few, *some([99])]) == as_bytes(few)
    assert front.requests == {"LIST": 1, "GET manifest": 3, "GET parquet": 2}
    assert maintenance.compact(s3_store) == 3
    assert maintenance.compact(s3_store) == 0
    other = elsewhere()
    front.clear()
    assert read(other, few) == as_bytes(few)
    assert front.requests == {"LIST": 1, "GET manifest": 1, "GET parquet": 2}
    other = elsewhere()
    front.clear()
    [kind] = maintenance.survey(other, read=False)
    assert (kind.features, kind.segments) == (40, 40)
    assert not front.requests["GET parquet"]


@pytest.mark.full
def test_features_in_two_segments_are_fetched_once(s3_store, front, elsewhere) -> None:
    features = some(range(10))
    write(s3_store, features)
    maintenance.prune(s3_store)
    write(s3_store, dict(list(features.items())[:4]))
    other = elsewhere()
    front.clear()
    assert read(other, features) == as_bytes(features)
    assert front.requests["GET parquet"] == 1


def test_pieces_of_a_worker_that_is_killed_share_manifests(s3_store, front, elsewhere) -> None:
    features = some(range(40))
    writer = s3_store.writer(KIND)
    for piece in features.items():
        writer.put(*piece)
        writer.flush()
    assert front.requests == {"PUT json": 1, "GET json": 1, "PUT parquet": 40, "PUT manifest": 2}
    other = elsewhere()
    front.clear()
    assert read(other, features) == as_bytes(features)
    assert front.requests == {"LIST": 1, "GET manifest": 2, "GET parquet": 40, "PUT manifest": 1}


def test_lost_manifests_are_made_again(s3_store, s3_server, front, elsewhere, names, caplog) -> None:
    features = some(range(20))
    write(s3_store, features)
    for key in names(".manifest"):
        s3_server.remove(key)
    assert read(elsewhere(), features) == as_bytes(features)
    assert len(names(".manifest")) == 1
    other = elsewhere()
    front.clear()
    assert read(other, list(features)[:1]) == as_bytes(dict(list(features.items())[:1]))
    assert front.requests["GET parquet"] == 1
    s3_server.remove(names(".manifest")[0])
    assert maintenance.compact(elsewhere()) == 0
    assert len(names(".manifest")) == 1
    assert caplog.messages == []


@pytest.mark.full
def test_a_killed_writers_segments_are_found(s3_store, elsewhere, names) -> None:
    """It had no time for a manifest."""
    features = some(range(5))
    kind = s3_store.place.kind(KIND.name)
    for key, feature in features.items():
        kind.write({key: feature})
    assert names(".manifest") == []
    assert read(elsewhere(), features) == as_bytes(features)


@pytest.mark.full
def test_a_manifest_that_names_a_lost_segment(s3_store, s3_server, elsewhere, names, caplog) -> None:
    features = some(range(6))
    write(s3_store, features)
    s3_server.remove(names(".parquet")[0])
    found = read(elsewhere(), features)
    assert len(found) == 5
    assert found.items() < as_bytes(features).items()
    [kind] = maintenance.survey(s3_store, read=False)
    assert (kind.features, kind.damaged) == (5, [])
    assert maintenance.compact(s3_store) == 1
    [lost] = features.keys() - found.keys()
    write(s3_store, {lost: features[lost]})
    assert read(elsewhere(), features) == as_bytes(features)
    assert caplog.messages == []


def test_a_damaged_manifest_is_told_and_replaced(s3_store, s3_server, elsewhere, names, caplog) -> None:
    features = some(range(6))
    write(s3_store, features)
    [key] = names(".manifest")
    sound = s3_server.get(key)
    s3_server.put(key, sound[:-9])
    [kind] = maintenance.survey(elsewhere())
    assert (kind.features, len(kind.damaged)) == (6, 1)
    assert key in kind.damaged[0]
    assert maintenance.compact(elsewhere(), dry_run=True) == 1
    assert maintenance.compact(elsewhere()) == 1
    assert names(".manifest") == [key]
    assert s3_server.get(key) == sound
    assert caplog.messages == []
    s3_server.put(key, b"")
    assert read(elsewhere(), features) == as_bytes(features)
    [message] = caplog.messages
    assert key in message
    assert "`sightword store compact` replaces it" in message
    [kind] = maintenance.survey(elsewhere())  # the reader has made it again
    assert (kind.features, kind.damaged) == (6, [])


@pytest.mark.full
@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-40], lambda data: b"", lambda data: data[:200] + b"\7" + data[201:]]
)
def test_a_damaged_segment_makes_no_wrong_feature(s3_store, s3_server, elsewhere, names, caplog, spoil) -> None:
    features = some(range(6))
    write(s3_store, features)
    key = names(".parquet")[3]
    s3_server.put(key, spoil(s3_server.get(key)))
    found = read(elsewhere(), features)
    assert found.items() <= as_bytes(features).items()
    assert len(found) >= 5
    if len(found) == 5:
        [message] = caplog.messages
        assert key in message
    maintenance.prune(s3_store)
    assert read(elsewhere(), features) == found
    write(s3_store, features)
    assert read(elsewhere(), features) == as_bytes(features)
    [kind] = maintenance.survey(elsewhere())
    assert kind.damaged == []


def test_copies_are_compared_with_their_names(s3_store, front, tmp_path, caplog) -> None:
    features = some(range(6))
    write(s3_store, features)
    assert read(s3_store, features) == as_bytes(features)
    copies = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert Counter(path.suffix for path in copies) == {".parquet": 6, ".manifest": 1}
    spoilt = next(path for path in copies if path.suffix == ".parquet")
    spoilt.chmod(0o644)
    spoilt.write_bytes(spoilt.read_bytes()[:-30])
    front.clear()
    assert read(s3_store, features) == as_bytes(features)
    assert front.requests == {"LIST": 1, "GET parquet": 1}
    [message] = caplog.messages
    assert message == f"{spoilt}: the copy is damaged and is downloaded again"
    assert read(s3_store, features) == as_bytes(features)


@pytest.mark.full
def test_copies_need_no_room(s3_store, tmp_path) -> None:
    features = some(range(3))
    write(s3_store, features)
    (tmp_path / "cache").write_text("a file, not a folder")
    assert read(s3_store, features) == as_bytes(features)


@pytest.mark.full
def test_a_reader_finds_what_was_merged_meanwhile(s3_store, elsewhere, address) -> None:
    features = some(range(30))
    write(s3_store, features)
    reading = elsewhere().read(KIND, DIMENSION, list(features))
    found = dict(zip(*next(reading), strict=True))
    assert maintenance.prune(Store(address)).segments == 30
    for keys, values in reading:
        found |= dict(zip(keys, values, strict=True))
    assert as_bytes(found) == as_bytes(features)


@pytest.mark.full
def test_a_store_that_was_copied_into_a_bucket(tmp_path, s3_server, front, address) -> None:
    """By the user, from a folder: it has no manifests."""
    features = some(range(5))
    write(Store(tmp_path / "store"), features)
    prefix = address.removeprefix(f"s3://{s3_server.bucket}/")
    for path in Path(tmp_path / "store").rglob("*"):
        if path.is_file():
            s3_server.put(f"{prefix}/{path.relative_to(tmp_path / 'store').as_posix()}", path.read_bytes())
    assert read(Store(address), features) == as_bytes(features)
    [kind] = maintenance.survey(Store(address))
    assert (kind.features, kind.damaged) == (5, [])
