"""Segments: what was written comes back bit by bit, and damage is told of, never delivered."""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.storage import segments
from sightword.storage.folder import FolderFile, FolderKind
from sightword.storage.segments import KEY_LENGTH, SUFFIX, Array, StoredFile, read_segment

DIMENSION = 4

Features = dict[bytes, Array]
Complaints = list[tuple[Path, int, str]]


def key(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def some(count: int, seed: int = 0, dimension: int = DIMENSION) -> Features:
    rng = np.random.default_rng(seed)
    return {key(number): rng.standard_normal(dimension).astype(np.float32) for number in range(count)}


def write_segment(folder: Path, features: Features) -> Path:
    return folder / FolderKind(folder).write(features).name


def read(path: Path, wanted=None, dimension: int | None = DIMENSION) -> tuple[dict[bytes, bytes], Complaints]:
    """The bytes of each feature by key, and what was complained of."""
    said: Complaints = []
    found: dict[bytes, bytes] = {}

    def complain(segment: StoredFile, lost: int, why: str) -> None:
        said.append((Path(str(segment)), lost, why))

    for keys, values in read_segment(FolderFile(path), dimension, wanted, complain):
        assert values.dtype == np.float32
        assert values.shape[0] == len(keys)
        found |= {key: value.tobytes() for key, value in zip(keys, values, strict=True)}
    return found, said


def as_bytes(features: Features) -> dict[bytes, bytes]:
    return {key: value.tobytes() for key, value in features.items()}


@st.composite
def any_features(draw: st.DrawFn) -> tuple[int, Features]:
    """Features of any bits at all, so NaN of every kind, infinities, -0.0 and subnormal numbers are among them."""
    dimension = draw(st.integers(1, 5))
    value = st.binary(min_size=4 * dimension, max_size=4 * dimension)
    value |= st.sampled_from([b"\x00\x00\x00\x80", b"\x01\x00\xa0\x7f", b"\xff\xff\xff\xff"]).map(
        lambda n: n * dimension
    )
    content = draw(st.dictionaries(st.binary(min_size=KEY_LENGTH, max_size=KEY_LENGTH), value, min_size=1, max_size=9))
    return dimension, {key: np.frombuffer(value, "<f4") for key, value in content.items()}


@settings(deadline=None, max_examples=60)
@given(any_features(), st.data())
def test_what_was_written_is_read(drawn, data) -> None:
    dimension, features = drawn
    wanted = data.draw(st.sets(st.sampled_from(sorted(features)))) | {bytes(KEY_LENGTH - 1) + b"\1"}
    with tempfile.TemporaryDirectory() as folder:
        path = write_segment(Path(folder), features)
        assert read(path, None, dimension) == (as_bytes(features), [])
        assert read(path, None, None) == (as_bytes(features), [])
        few = {key: value for key, value in as_bytes(features).items() if key in wanted}
        assert read(path, wanted, dimension) == (few, [])


def test_more_features_than_a_row_group_holds(tmp_path) -> None:
    features = some(2 * segments.GROUP + 3)
    path = write_segment(tmp_path, features)
    assert pq.read_metadata(path).num_row_groups == 3
    assert read(path) == (as_bytes(features), [])
    wanted = {key(7), key(400)}
    assert read(path, wanted)[0] == {each: features[each].tobytes() for each in wanted}


def test_the_same_features_are_the_same_file(tmp_path) -> None:
    features = some(20)
    first = write_segment(tmp_path / "one", features)
    data = first.read_bytes()
    other = write_segment(tmp_path / "other", dict(reversed(features.items())))
    assert (other.name, other.read_bytes()) == (first.name, data)
    assert write_segment(tmp_path / "one", features) == first
    halves = (data, b"".join(sorted(key[:8] for key in features)))
    name = "".join(hashlib.sha256(half).hexdigest()[:16] for half in halves) + ".parquet"
    assert [path.name for path in (tmp_path / "one").iterdir()] == [name]
    features[key(3)] = features[key(3)] + 1
    assert write_segment(tmp_path / "one", features) != first


def test_any_memory_layout_gives_the_same_bytes(tmp_path) -> None:
    features = some(5)
    table = np.stack(list(features.values()))
    columns = np.asfortranarray(table)
    swapped = table.astype(">f4")
    plain = write_segment(tmp_path / "plain", features)
    for rows in (columns, swapped):
        path = write_segment(tmp_path / "laid-out", dict(zip(features, rows, strict=True)))
        assert path.read_bytes() == plain.read_bytes()


@pytest.fixture
def sound(tmp_path, monkeypatch) -> tuple[Path, Features, bytes]:
    """A small segment of three row groups, its features and its bytes."""
    monkeypatch.setattr(segments, "GROUP", 2)
    features = some(6)
    path = write_segment(tmp_path, features)
    return path, features, path.read_bytes()


def check_damaged(path: Path, features: Features, at: object, *, key_may_be_gone: bool = False) -> None:
    """Nothing but true features, and what is missing was told of."""
    true = as_bytes(features)
    found, said = read(path, set(features))
    assert found.items() <= true.items(), at
    assert said or key_may_be_gone or found == true, at
    everything, said = read(path, None, None)
    assert everything.items() <= true.items(), at
    assert said or everything == true, at


def check_flipped(sound: tuple[Path, Features, bytes], masks: list[int]) -> None:
    path, features, data = sound
    in_a_key = {data.index(each) + place for each in features for place in range(KEY_LENGTH)}
    for at, mask in itertools.product(range(len(data)), masks):
        damaged = bytearray(data)
        damaged[at] ^= mask
        path.write_bytes(damaged)
        check_damaged(path, features, (at, mask), key_may_be_gone=at in in_a_key)


def test_changed_byte_anywhere_gives_no_wrong_feature(sound) -> None:
    check_flipped(sound, [0xFF])


@pytest.mark.full
def test_flipped_bit_anywhere_gives_no_wrong_feature(sound) -> None:
    check_flipped(sound, [1 << bit for bit in range(8)])


def test_file_cut_off_anywhere_gives_no_wrong_feature(sound) -> None:
    path, features, data = sound
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert read(path)[0] == {}
        check_damaged(path, features, length)


def test_bytes_too_many_or_of_nothing(sound) -> None:
    path, features, data = sound
    rng = np.random.default_rng(1)
    for damaged in (data + b"\0", data + data[:100], data + data, b"\0" + data, bytes(len(data)), rng.bytes(len(data))):
        path.write_bytes(damaged)
        check_damaged(path, features, len(damaged))
    for start in range(0, len(data) - 64, 64):  # a block that never reached the disk
        path.write_bytes(data[:start] + bytes(64) + data[start + 64 :])
        check_damaged(path, features, start, key_may_be_gone=True)


def test_of_a_damaged_feature_only_itself_is_lost(sound) -> None:
    path, features, data = sound
    for each, value in features.items():
        for place in range(value.nbytes):
            damaged = bytearray(data)
            damaged[data.index(value.tobytes()) + place] ^= 1
            path.write_bytes(damaged)
            found, said = read(path, set(features))
            assert found == as_bytes({other: features[other] for other in features if other != each})
            [(where, lost, why)] = said
            assert (where, lost) == (path, 1)
            assert "checksum" in why


def test_a_feature_under_anothers_key_is_not_delivered(sound) -> None:
    """Each number and its checksum are sound, but two pairs of them stand in each other's place."""
    path, features, data = sound
    one, other = sorted(features)[:2]
    rows = {row["key"]: (row["check"], row["feature"]) for row in pq.read_table(path).to_pylist()}
    damaged = bytearray(data)
    for first, second in zip(rows[one], rows[other], strict=True):
        places = data.index(first), data.index(second)
        damaged[places[0] : places[0] + len(first)] = second
        damaged[places[1] : places[1] + len(second)] = first
    path.write_bytes(damaged)
    found, said = read(path, set(features))
    assert found == as_bytes({key: features[key] for key in features if key not in (one, other)})
    assert [lost for _, lost, _ in said] == [2]


def columns_of(key_type, check_type, feature_type, values) -> pa.Table:
    arrays = [pa.array(column, kind) for column, kind in zip(values, (key_type, check_type, feature_type), strict=True)]
    return pa.table(dict(zip(("key", "check", "feature"), arrays, strict=True)))


KEY = pa.binary(KEY_LENGTH)
ROW = (b"k" * KEY_LENGTH, b"c" * KEY_LENGTH, b"f" * 4 * DIMENSION)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"image_id": ["a"], "pixels": [b"x"]}),
        pa.table({"key": [ROW[0]]}, pa.schema([("key", KEY)])),
        columns_of(KEY, KEY, pa.int64(), [[ROW[0]], [ROW[1]], [1]]),
        columns_of(KEY, KEY, pa.binary(), [[each] for each in ROW]),
        columns_of(KEY, KEY, pa.binary(6), [[ROW[0]], [ROW[1]], [b"f" * 6]]),
        columns_of(KEY, KEY, pa.binary(4 * DIMENSION + 4), [[ROW[0]], [ROW[1]], [b"f" * (4 * DIMENSION + 4)]]),
        columns_of(KEY, KEY, pa.list_(pa.float32(), DIMENSION), [[ROW[0]], [ROW[1]], [[1.0] * DIMENSION]]),
        columns_of(pa.string(), KEY, pa.binary(4 * DIMENSION), [["k"], [ROW[1]], [ROW[2]]]),
        columns_of(pa.list_(pa.int8()), KEY, pa.binary(4 * DIMENSION), [[[1]], [ROW[1]], [ROW[2]]]),
        columns_of(KEY, pa.int32(), pa.binary(4 * DIMENSION), [[ROW[0]], [1], [ROW[2]]]),
        columns_of(KEY, KEY, pa.binary(4 * DIMENSION), [[each] for each in ROW]),
        columns_of(KEY, KEY, pa.binary(4 * DIMENSION), [[None]] * 3),
    ],
    ids=[
        "another table", "keys only", "number", "bytes", "odd bytes", "another dimension", "list", "text key",
        "list key", "number check", "wrong check", "nothing",
    ],
)  # fmt: skip
def test_a_parquet_file_that_is_no_segment(tmp_path, table) -> None:
    path = tmp_path / f"other{SUFFIX}"
    pq.write_table(table, path)
    for wanted in ({ROW[0]}, None):
        found, said = read(path, wanted)
        assert found == {}
        assert [where for where, _, _ in said] == [path]


def test_a_segment_of_another_dimension(tmp_path) -> None:
    path = write_segment(tmp_path, some(3, dimension=5))
    found, said = read(path, dimension=4)
    assert found == {}
    assert [(where, why) for where, _, why in said] == [(path, "it holds no features of 4 numbers")]


def test_a_segment_that_went_away_is_no_damage(tmp_path, sound) -> None:
    assert read(tmp_path / f"gone{SUFFIX}") == ({}, [])


def test_a_segment_that_went_away_while_it_was_read(sound) -> None:
    path, features, _ = sound
    said: Complaints = []
    reading = read_segment(FolderFile(path), DIMENSION, None, lambda *complaint: said.append(complaint))
    next(reading)
    path.unlink()
    for keys, values in reading:
        assert all(np.array_equal(features[key], value) for key, value in zip(keys, values, strict=True))
    assert said == []


def test_a_folder_in_a_segments_place_is_told(tmp_path) -> None:
    path = tmp_path / f"folder{SUFFIX}"
    path.mkdir()
    found, said = read(path)
    assert found == {}
    assert len(said) == 1
