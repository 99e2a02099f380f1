"""A store in object storage: few requests, and no wrong feature whatever is lost or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_features import DIMENSION, KIND, as_bytes, read, some, write

from sightword.places import requests
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


def segments(server, address: str) -> list[str]:
    """The keys of the store's segments."""
    prefix = address.removeprefix(f"s3://{server.bucket}/") + "/"
    return [key for key in server.objects(prefix) if key.endswith(".parquet")]


def test_requests_are_few(s3_store, front, elsewhere) -> None:
    features = some(range(40))
    write(s3_store, features)
    assert front.requests == {"PUT json": 1, "GET json": 1, "PUT parquet": 40}
    other = elsewhere()
    front.clear()
    assert read(other, features) == as_bytes(features)
    assert front.requests["LIST"] == 1
    assert front.requests["GET parquet"] <= 3 * 40
    front.clear()
    assert read(other, features) == as_bytes(features)
    assert front.requests == {"LIST": 1}  # all others are copies now
    maintenance.prune(s3_store)
    other = elsewhere()
    front.clear()
    few = dict(list(features.items())[:2])
    assert read(other, [*few, *some([99])]) == as_bytes(few)
    assert front.requests["GET parquet"] <= 3
    other = elsewhere()
    front.clear()
    [kind] = maintenance.survey(other, read=False)
    assert (kind.features, kind.segments) == (40, 1)
    assert front.requests["GET parquet"] <= 2


@pytest.mark.full
@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-40], lambda data: b"", lambda data: data[:200] + b"\7" + data[201:]]
)
def test_a_damaged_segment_makes_no_wrong_feature(s3_store, s3_server, address, elsewhere, caplog, spoil) -> None:
    features = some(range(6))
    write(s3_store, features)
    key = segments(s3_server, address)[3]
    s3_server.put(key, spoil(s3_server.get(key)))
    found = read(elsewhere(), features)
    assert found.items() <= as_bytes(features).items()
    assert len(found) == 5
    [message] = caplog.messages
    assert key in message
    maintenance.prune(elsewhere())
    assert read(elsewhere(), features) == found
    write(s3_store, features)
    assert read(elsewhere(), features) == as_bytes(features)
    [kind] = maintenance.survey(elsewhere())
    assert kind.damaged == []


def test_copies_are_compared_with_their_names(s3_store, front, tmp_path) -> None:
    features = some(range(6))
    write(s3_store, features)
    assert read(s3_store, features) == as_bytes(features)
    copies = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(copies) == 6
    copies[0].chmod(0o644)
    data = copies[0].read_bytes()
    copies[0].write_bytes(data.replace(data[100:110], bytes(10)))
    front.clear()
    assert read(s3_store, features) == as_bytes(features)
    assert front.requests["GET parquet"] == 1
    assert copies[0].read_bytes() == data


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
    features = some(range(5))
    write(Store(tmp_path / "store"), features)
    prefix = address.removeprefix(f"s3://{s3_server.bucket}/")
    for path in Path(tmp_path / "store").rglob("*"):
        if path.is_file():
            s3_server.put(f"{prefix}/{path.relative_to(tmp_path / 'store').as_posix()}", path.read_bytes())
    assert read(Store(address), features) == as_bytes(features)
    [kind] = maintenance.survey(Store(address))
    assert (kind.features, kind.damaged) == (5, [])


def test_listing_that_breaks_off_in_the_middle_is_continued(front, address) -> None:
    """The second of three pages is cut: the listing goes on behind the first, and has each object once."""

    def page(*numbers: int, more: bool) -> bytes:
        name = address.partition("lab/")[2]
        keys = "".join(
            f"<Contents><Key>{name}/{number:03}</Key><Size>1</Size><ETag>a</ETag>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for number in numbers
        )
        token = "<NextContinuationToken>t</NextContinuationToken>" * more
        return (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{keys}</ListBucketResult>".encode()
        )

    asked = []

    def answer(_method: str, path: str) -> object:
        asked.append(path)
        if "start-after" in path:
            return 200, {}, page(50, 51, more=False)
        return "cut" if "continuation-token" in path else (200, {}, page(*range(50), more=True))

    front.fault = answer
    assert list(requests.Requests(address).tree()) == [f"{number:03}" for number in range(52)]
    assert "049" in asked[-1]
    assert len(asked) == 3
