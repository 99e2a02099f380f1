"""Segments: what was written comes back bit by bit, and damage is told of, never delivered."""

from __future__ import annotations

import io
import itertools
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_features import KIND, as_bytes, fill, read, some, write

from sightword.storage import maintenance
from sightword.storage import store as module
from sightword.storage.store import KEY_LENGTH, Array, Store, name_of, pack, segments

Features = dict[bytes, Array]


def looked(store: Store, wanted=None) -> tuple[dict[bytes, bytes], list[str]]:
    """The bytes of each feature by key, and what is wrong with segments."""
    found: dict[bytes, bytes] = {}
    faults: list[str] = []
    for segment in segments(store.place, KIND.name, store.place.files(KIND.name), wanted):
        assert segment.values.dtype == np.float32
        if segment.state == "whole":
            found |= {key: value.tobytes() for key, value in zip(segment.keys, segment.values, strict=True)}
        faults += [segment.why] if segment.why else []
    return found, faults


@st.composite
def any_features(draw: st.DrawFn) -> Features:
    """Features of any bits at all, so NaN of every kind, infinities, -0.0 and subnormal numbers are among them."""
    dimension = draw(st.integers(1, 5))
    value = st.binary(min_size=4 * dimension, max_size=4 * dimension)
    odd = st.sampled_from([b"\x00\x00\x00\x80", b"\x01\x00\xa0\x7f", b"\xff\xff\xff\xff"])
    keys = st.binary(min_size=KEY_LENGTH, max_size=KEY_LENGTH)
    content = draw(st.dictionaries(keys, value | odd.map(lambda n: n * dimension), min_size=1, max_size=9))
    return {key: np.frombuffer(value, "<f4") for key, value in content.items()}


@settings(deadline=None, max_examples=60)
@given(any_features(), st.data())
def test_what_was_written_is_read(features, data) -> None:
    wanted = data.draw(st.sets(st.sampled_from(sorted(features)), min_size=1)) | {bytes(KEY_LENGTH - 1) + b"\1"}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        module.write(store.place, KIND.name, features)
        assert looked(store) == looked(store, wanted) == (as_bytes(features), [])
        assert looked(store, {bytes(KEY_LENGTH)} - features.keys()) == ({}, [])
        dimension = len(next(iter(features.values())))
        few = dict(itertools.chain(*(zip(*found, strict=True) for found in store.read(KIND, dimension, wanted))))
        assert as_bytes(few) == as_bytes({key: features[key] for key in wanted & features.keys()})


def test_equal_features_are_equal_files_in_any_layout(tmp_path) -> None:
    features = some(range(20))
    data = pack(features)
    table = np.stack(list(features.values()))
    for rows in (np.asfortranarray(table), table.astype(">f4")):
        assert pack(dict(reversed([*zip(features, rows, strict=True)]))) == data
    assert pack({**features, min(features): table[0] + 1}) != data


KEY = pa.array([b"k" * KEY_LENGTH], pa.binary(KEY_LENGTH))
FEATURE = pa.array([bytes(32)], pa.binary(32))
FOREIGN = [
    {},
    {"key": KEY},
    {"key": pa.nulls(1), "feature": FEATURE},
    {"key": pa.array([b"short"], pa.binary(5)), "feature": FEATURE},
    {"key": KEY, "feature": pa.array([[1.0, 2.0]])},
    {"key": KEY, "feature": pa.nulls(1, pa.binary(32))},
]
"""Columns of files of other programs."""


@pytest.mark.parametrize("columns", FOREIGN)
def test_foreign_file_is_told_and_pruned(tmp_path, columns) -> None:
    store, features = Store(tmp_path), some(range(6))
    write(store, features)
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    store.place.write(f"{KIND.name}/{name_of(buffer.getvalue())}", buffer.getvalue())
    [found] = maintenance.survey(store)
    assert (found.features, len(found.damaged)) == (6, 1)
    assert read(store, [*features, KEY[0].as_py()]) == as_bytes(features)
    maintenance.prune(store)
    [found] = maintenance.survey(store)
    assert (found.features, len(found.damaged)) == (6, 0)


def test_features_of_another_dimension_are_told(tmp_path, caplog) -> None:
    store = Store(tmp_path)
    features = fill(store, KIND, range(3))
    assert list(store.read(KIND, 5, list(features))) == []
    assert "it holds no features of 5 numbers" in caplog.text
