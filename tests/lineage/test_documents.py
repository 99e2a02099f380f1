"""YAML by a fast reader: the same values as by the slow one of DVC."""

from __future__ import annotations

import io

import pytest
from dvc.utils.serialize import dumps_yaml, parse_yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pipeline.lineage import documents
from sightword.errors import LineageError


@pytest.mark.parametrize("name", ["dvc.lock", "params.yaml", "dvc.yaml"])
def test_our_own_files_are_read_as_the_parser_of_dvc_reads_them(repository, name):
    text = (repository / name).read_text()
    assert documents.parse(text, name) == YAML(typ="safe", pure=True).load(text)


CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\x85\u2028\u2029")
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(CHARACTERS, max_size=20)


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), SCALARS | st.lists(SCALARS, max_size=4), max_size=6)
)
def test_what_the_parser_of_dvc_writes_comes_back(values):
    buffer = io.StringIO()
    YAML().dump(values, buffer)
    assert documents.parse(buffer.getvalue(), "values") == values


def read_both(text):
    """What DVC reads, and what is read here; of a text that is refused, its error's class."""
    found = []
    for read, refusal in (
        (lambda: parse_yaml(text, "text"), Exception),
        (lambda: documents.parse(text, "text"), LineageError),
    ):
        try:
            found.append(read())
        except refusal:
            found.append(refusal)
    return found


SPELLINGS = """
    100_000_000 1_0 1__0 1_ _1 0_ -1_0 +3 -0 00 010 08 09 0o17 0o1_7 -0o17 0x1F 0x1_F -0x1F 0b101 0b1_0 -0b1
    1e3 1E3 1e-3 1e-6 1e+3 1.e3 1_0.5 1_0e3 1_000.000_1 .5 .5e-3 .5e3 .1e+3 ._5 5. 1.5_0 0.0.1 1e .e3 e3 1,000
    .inf -.inf +.inf .Inf nan .n inf yes no on off y n Yes NO true True TRUE tRUE false ~ null Null NULL nULL
    1:30 12:30:45 1:2.5 - . .. + = << @ 'no' "1" !!str !!foo
"""


ODD = [
    *("!!str 3", "!!int '3'", "!!int x", "!!float 3", "!!float x", "!!bool x", "2026-99-99"),
    *("{a: 1, a: 2}", "{1: a, 1: b}", "{<<: {a: 1, c: 3}, a: 2}", "{<<: [{a: 1}, {b: 2}]}"),
]


@pytest.mark.parametrize("text", [*SPELLINGS.split(), *ODD])
def test_a_value_is_the_one_that_dvc_reads(text):
    """Version 1.2 of YAML as DVC's parser takes it, with underscores in numbers; the facts of a run are filed by it."""
    theirs, ours = read_both(f"key: {text}")
    if theirs is Exception:
        assert ours is LineageError
    else:
        assert ours == theirs
        assert type(ours["key"]) is type(theirs["key"])


@given(st.text("0123456789_.eE+-xob", min_size=1, max_size=8))
def test_any_number_is_the_one_that_dvc_reads(text):
    theirs, ours = read_both(f"key: {text}")
    assert (ours is LineageError) if theirs is Exception else (repr(ours) == repr(theirs))


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01T10:00:00Z", "2026-01-01 10:00:00.5"])
def test_a_date_is_a_text_and_the_same_after_dvc_wrote_it(text):
    ours = documents.parse(f"key: {text}", "text")
    assert isinstance(ours["key"], str)
    assert documents.parse(dumps_yaml(parse_yaml(f"key: {text}", "text")), "text") == ours
