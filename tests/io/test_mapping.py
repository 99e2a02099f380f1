"""A mapping of records has one value for each key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.errors import CorpusError
from sightword.io.mapping import mapping


def build(records):
    return mapping(records, "the id", "file", CorpusError, todo="Give each picture an id of its own.")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2))))
def test_records_give_a_mapping_just_when_no_key_has_two_values(records):
    contradictory = any(a == b and x != y for a, x in records for b, y in records)
    placed = [(key, value, f"row {row}") for row, (key, value) in enumerate(records)]
    if contradictory:
        with pytest.raises(CorpusError, match="stands twice, with the file "):
            build(placed)
    else:
        assert list(build(placed).items()) == list(dict(records).items())


def test_two_values_are_quoted_with_their_places():
    with pytest.raises(CorpusError) as found:
        build([(1, "a.png", "x.json, images[0]"), (2, "c", ""), (1, "b" * 10**6, "y.json, images[7]")])
    assert str(found.value).startswith(
        "y.json, images[7]: the id 1 stands twice, with the file 'a.png' (x.json, images[0]) and the file 'bbb"
    )
    assert len(str(found.value)) < 300
