"""A store in a folder and one in object storage do the same."""

from __future__ import annotations

import threading

import pytest
from kept_features import KIND, OTHER, as_bytes, read, some, write

from sightword.errors import StoreError
from sightword.storage import maintenance
from sightword.storage import store as module
from sightword.storage.place import IDENTITY
from sightword.storage.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture
def at_once(monkeypatch) -> None:
    """Each feature makes a segment."""
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module, "LAST", 0.0)


def again(store: Store) -> Store:
    """The same store as another process sees it."""
    return Store(str(store.place))


def segments_of(store: Store) -> list[str]:
    return [name for name in store.place.files(KIND.name) if module.SEGMENT_NAME.fullmatch(name)]


def test_nothing_is_in_a_store_that_is_not_there(store) -> None:
    assert read(store, some(range(3))) == {}
    assert read(store, []) == {}
    assert store.place.kinds() == []
    assert list(maintenance.survey(store)) == []


def test_what_was_written_is_read(store) -> None:
    features = some(range(12))
    keys = list(features)
    for first, last in ((0, 6), (3, 9), (3, 12), (5, 6)):
        write(store, {key: features[key] for key in keys[first:last]})
    assert len(segments_of(store)) == 4
    assert read(again(store), keys) == as_bytes(features)
    assert read(store, keys[4:6]) == as_bytes({key: features[key] for key in keys[4:6]})
    assert read(store, [*keys[:2], *some([99])]) == as_bytes({key: features[key] for key in keys[:2]})
    assert read(store, []) == {}


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
    assert {kind.identity["backbone"]: kind.features for kind in maintenance.survey(store)} == {
        "resnet152": 4,
        "vgg19": 4,
    }


@pytest.mark.parametrize("reason", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_nothing_is_lost_when_the_work_breaks_off(store, reason) -> None:
    features = some(range(5))
    with pytest.raises(reason), store.writer(KIND) as writer:
        for key, feature in features.items():
            writer.put(key, feature)
        raise reason
    assert read(again(store), features) == as_bytes(features)


def test_small_segments_become_one(store, at_once) -> None:
    features = some(range(30))
    write(store, features)
    assert len(segments_of(store)) == 30
    done = maintenance.prune(store, dry_run=True)
    assert done.segments == 30
    done = maintenance.prune(again(store))
    assert (done.segments, done.bytes > 0) == (30, True)
    [segment] = segments_of(store)
    assert read(again(store), features) == as_bytes(features)
    assert maintenance.prune(store) == maintenance.Pruning()
    assert segments_of(store) == [segment]


def test_kinds_are_removed(store) -> None:
    write(store, some(range(3)))
    write(store, some(range(3), OTHER), OTHER)
    assert maintenance.prune(store, unused_days=1).kinds == 0
    assert maintenance.prune(store, remove=KIND.name[:6]).kinds == 1
    assert [kind.name for kind in maintenance.survey(store)] == [OTHER.name]
    assert maintenance.prune(store, unused_days=-1).kinds == 1
    assert list(maintenance.survey(store)) == []
    with pytest.raises(StoreError, match="no kind of feature begins with abc"):
        maintenance.prune(store, remove="abc")


def test_two_writers_and_a_pruner_lose_nothing(store, at_once) -> None:
    features = some(range(45))
    keys = list(features)
    parts = (keys[:30], keys[15:])
    writers = [
        threading.Thread(target=write, args=(again(store), {key: features[key] for key in part})) for part in parts
    ]
    for writer in writers:
        writer.start()
    pruner = again(store)
    while any(writer.is_alive() for writer in writers):
        maintenance.prune(pruner)
        assert read(again(store), keys).items() <= as_bytes(features).items()
    assert read(store, keys) == as_bytes(features)
    maintenance.prune(store)
    assert read(again(store), keys) == as_bytes(features)
