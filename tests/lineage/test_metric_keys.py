from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lineage.audit import find_entry as find
from sightword.errors import LineageError
from sightword.messages import flat

NAMES = st.text("ab.", min_size=1, max_size=4)
TREES = st.recursive(st.integers(), lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3), max_leaves=8)


@given(st.dictionaries(NAMES, TREES, min_size=1))
def test_every_entry_has_a_name_that_leads_to_one(values):
    """Where keys have dots several entries may share a name: one of those is found."""
    entries = {}
    for path, value in leaves(values):
        entries.setdefault(".".join(path), []).append(value)
    assert set(flat(values)) == set(entries)
    for name, those in entries.items():
        found = find(values, name, "file")
        assert found in those or isinstance(found, dict)


def leaves(values):
    for key, value in values.items():
        if isinstance(value, dict):
            yield from (((key, *path), leaf) for path, leaf in leaves(value))
        else:
            yield (key,), value


def test_the_longest_key_counts():
    values = {"STS15": {"surprise.OnWN": {"pearson": 1}, "surprise": {"OnWN": {"pearson": 2}}}}
    assert find(values, "STS15.surprise.OnWN.pearson", "f") == 1
    assert find(values, "STS15.surprise", "f") == {"OnWN": {"pearson": 2}}
    assert find(values, "", "f") is values


def test_a_shorter_key_counts_where_the_longest_leads_nowhere():
    assert find({"a.b": {"x": 1}, "a": {"b": {"c": 2}}}, "a.b.c", "f") == 2


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(LineageError, match=r"f: has no entry test.full.r01. Did you mean test\.full\.r10"):
        find({"test": {"full": {"r10": 1, "r5": 2}}}, "test.full.r01", "f")
