"""Manifests hold the beginnings of keys by segment, and are whole or refused."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from foreign_files import MANIFESTS, manifest_of
from hypothesis import given
from hypothesis import strategies as st

from sightword.storage import manifests
from sightword.storage.manifests import digest, pack, packs, prefixes, unpack

KEYS = st.sets(st.integers(0, 50).map(lambda number: hashlib.sha256(bytes([number])).digest()), min_size=1, max_size=9)
CONTENTS = st.dictionaries(st.integers(0, 8), KEYS)


def segment(number: int, keys: manifests.Prefixes) -> str:
    return f"{number:016x}{digest(keys)}.parquet"


def as_sets(contents) -> dict[str, set[int]]:
    return {name: set(keys.tolist()) for name, keys in contents.items()}


@given(CONTENTS, st.integers(1, 40))
def test_manifests_hold_what_they_were_given(content, most) -> None:
    contents = {segment(number, prefixes(keys)): prefixes(keys) for number, keys in content.items()}
    true = {
        segment(number, prefixes(keys)): {int.from_bytes(key[:8], "big") for key in keys}
        for number, keys in content.items()
    }
    assert as_sets(contents) == true
    assert as_sets(unpack(*pack(contents))) == true
    assert pack(dict(reversed(contents.items()))) == pack(contents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "MOST", most)
        parts = [unpack(*packed) for packed in packs(contents)]
    assert sum(map(len, parts)) == len(contents)
    assert as_sets({name: keys for part in parts for name, keys in part.items()}) == true
    assert all(len(part) == 1 or sum(map(len, part.values())) <= most for part in parts)


def test_a_changed_or_cut_manifest_is_refused() -> None:
    keys = np.arange(5, dtype=np.uint64)
    name, data = pack({segment(1, keys): keys})
    for at in range(len(data)):
        with pytest.raises(ValueError, match="not those of its name"):
            unpack(name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ValueError, match="not those of its name"):
            unpack(name, data[:at])


def test_another_file_with_a_fitting_name_is_refused() -> None:
    for data in (b"", b"PAR1 is how it begins"):
        with pytest.raises(ValueError):
            unpack(manifests.name_of(data), data)


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_foreign_manifest_is_refused(kind) -> None:
    keys = [hashlib.sha256(bytes([number])).digest() for number in range(4)]
    with pytest.raises(ValueError):
        unpack(*manifest_of(kind, segment(1, prefixes(keys)), keys))


def test_a_manifest_with_the_right_keys_is_taken() -> None:
    keys = prefixes([hashlib.sha256(bytes([number])).digest() for number in range(4)])
    table = {
        "segment": pa.array([segment(1, keys)]),
        "keys": pa.array([keys.astype(">u8").tobytes()], pa.large_binary()),
    }
    assert as_sets(unpack(*manifest_of(table))) == {segment(1, keys): set(keys.tolist())}
