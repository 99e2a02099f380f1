"""Manifests hold the beginnings of keys by segment, and are whole or refused."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.storage import manifests
from sightword.storage.manifests import pack, packs, prefixes, unpack

KEYS = st.sets(st.integers(0, 50).map(lambda number: hashlib.sha256(bytes([number])).digest()), min_size=1, max_size=9)
CONTENTS = st.dictionaries(st.sampled_from([f"{number:032x}.parquet" for number in range(9)]), KEYS)


def as_sets(contents) -> dict[str, set[int]]:
    return {name: set(keys.tolist()) for name, keys in contents.items()}


@given(CONTENTS, st.integers(1, 40))
def test_manifests_hold_what_they_were_given(content, most) -> None:
    contents = {name: prefixes(keys) for name, keys in content.items()}
    true = {name: {int.from_bytes(key[:8], "big") for key in keys} for name, keys in content.items()}
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
    name, data = pack({f"{1:032x}.parquet": np.arange(5, dtype=np.uint64)})
    for at in range(len(data)):
        with pytest.raises(ValueError, match="not those of its name"):
            unpack(name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ValueError, match="not those of its name"):
            unpack(name, data[:at])


def test_another_file_with_a_fitting_name_is_refused() -> None:
    for data in (b"", b"PAR1 is how it begins"):
        with pytest.raises(ValueError):
            unpack(manifests.name_of(data), data)
