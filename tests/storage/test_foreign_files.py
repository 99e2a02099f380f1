"""Files of other programs in a store, with the names of its own: told of and ignored, and no feature is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from foreign_files import MANIFESTS, SEGMENTS, manifest_of, segment_of
from kept_features import KIND, as_bytes, read, some, write

from sightword.storage import maintenance
from sightword.storage.manifests import DIGITS
from sightword.storage.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture
def put(request, tmp_path, store) -> Callable[[str, bytes], None]:
    """Puts a file beside the features."""
    if isinstance(store.place.folder, Path) and str(store.place) == str(store.place.folder):
        folder = store.place.folder / "features" / KIND.name
        return lambda name, data: (folder / name).write_bytes(data)
    server = request.getfixturevalue("s3_server")
    prefix = str(store.place).removeprefix(f"s3://{server.bucket}/")
    return lambda name, data: server.put(f"{prefix}/features/{KIND.name}/{name}", data)


def elsewhere(store: Store, monkeypatch, tmp_path) -> Store:
    """The same store on a machine without copies."""
    monkeypatch.setenv("SIGHTWORD_CACHE", str(tmp_path / "elsewhere"))
    return Store(str(store.place))


def survey(store: Store) -> tuple[int, int]:
    [kind] = maintenance.survey(store)
    return kind.features, len(kind.damaged)


def check_all_found(store: Store, features, monkeypatch, tmp_path, *, damage: int = 0) -> None:
    """After `compact` and `prune` too, which leave so many damaged files."""
    other = elsewhere(store, monkeypatch, tmp_path)
    assert read(other, [*features, *some([99])]) == as_bytes(features)
    maintenance.compact(other)
    maintenance.prune(other)
    assert survey(other) == (len(features), damage)
    assert read(other, features) == as_bytes(features)


@pytest.mark.parametrize(
    "kind", [kind if kind == "wrong keys" else pytest.param(kind, marks=pytest.mark.full) for kind in MANIFESTS]
)
def test_a_foreign_manifest_is_told_and_ignored(store, put, monkeypatch, tmp_path, caplog, kind) -> None:
    features = some(range(6))
    write(store, features)
    [segment] = store.place.kind(KIND.name).segments()
    name, data = manifest_of(kind, segment.name, list(features))
    put(name, data)
    [counted] = maintenance.survey(store, read=False)
    assert counted.features == 6
    check_all_found(store, features, monkeypatch, tmp_path)
    if "://" in str(store.place):
        assert f"{name}: the manifest cannot be used" in caplog.messages[0]
        assert "`sightword store compact` replaces it" in caplog.messages[0]
        assert len(caplog.messages[0]) < 500


def test_features_that_only_a_wrong_manifest_names_are_found(
    s3_store, s3_server, monkeypatch, tmp_path, caplog
) -> None:
    """The manifest names the segment with other keys: nothing is computed again."""
    features = some(range(6))
    kind = s3_store.place.kind(KIND.name)
    segment = kind.write(features)
    prefix = str(kind).removeprefix(f"s3://{s3_server.bucket}/")
    name, data = manifest_of("wrong keys", segment.name)
    s3_server.put(f"{prefix}/{name}", data)
    assert read(elsewhere(s3_store, monkeypatch, tmp_path), features) == as_bytes(features)
    [warning] = caplog.messages
    assert f"{name}: the manifest cannot be used (its keys are not those of {segment.name})" in warning
    assert survey(s3_store) == (6, 1)
    assert maintenance.compact(s3_store) == 1  # the reader's own manifest stays
    assert survey(s3_store) == (6, 0)


@pytest.mark.parametrize(
    "kind", [kind if kind == "key: no type" else pytest.param(kind, marks=pytest.mark.full) for kind in SEGMENTS]
)
def test_a_foreign_segment_is_told_and_ignored(store, put, monkeypatch, tmp_path, kind) -> None:
    features = some(range(6))
    write(store, features)
    put(*segment_of(kind))
    assert survey(store) == (6, 1)
    check_all_found(store, features, monkeypatch, tmp_path, damage=1)


def test_equal_keys_have_equal_halves_of_names(store) -> None:
    """So a manifest is compared with a segment without a request."""
    features, others = some(range(3)), {key: value + 1 for key, value in some(range(3)).items()}
    kind = store.place.kind(KIND.name)
    one, other = kind.write(features).name, kind.write(others).name
    assert one[:DIGITS] != other[:DIGITS]
    assert one[DIGITS:] == other[DIGITS:]
