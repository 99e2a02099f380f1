"""YAML is read as DVC reads it, and a lock file as DVC wrote it, or after something went wrong with it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from dvc.exceptions import DvcException
from dvc.utils.serialize import dumps_yaml, parse_yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pipeline.lineage.lock import Lock, read_lock
from pipeline.pipelines import LOCK
from sightword.errors import FileFormatError, LineageError
from sightword.io import yaml_reader


def text_of(repository):
    return (repository / LOCK).read_text()


def test_all_that_the_lock_says_is_there(repository):
    """Read piece by piece for speed; compared with the whole file read by another parser."""
    whole = YAML(typ="safe", pure=True).load(text_of(repository))["stages"]
    found = read_lock(text_of(repository)).entries
    assert set(found) == set(whole)
    for name, stage in whole.items():
        entry = found[name]
        assert entry.command == stage["cmd"]
        assert entry.params == stage["params"]
        for kind in ("deps", "outs"):
            assert [(one.path, one.md5, one.size, one.files) for one in getattr(entry, kind)] == [
                (one["path"], one["md5"], one["size"], one.get("nfiles")) for one in stage[kind]
            ]


def test_another_layout_is_read_as_well(repository):
    yaml, buffer = YAML(), io.StringIO()
    yaml.indent(mapping=4, sequence=6, offset=4)
    yaml.dump(YAML(typ="safe", pure=True).load(text_of(repository)), buffer)
    assert buffer.getvalue() != text_of(repository)
    whole = read_lock(text_of(repository))
    assert read_lock(buffer.getvalue()) == whole
    assert read_lock(buffer.getvalue(), wanted=[whole.entries["train"]]) == whole


def test_wanted_entries_are_read_and_others_are_not(repository):
    text, changed = text_of(repository), []
    whole = read_lock(text).entries
    for name, entry in whole.items():
        assert read_lock(text, wanted=[entry]).entries == {name: entry}
        changed.append(replace(entry, outs=(replace(entry.outs[0], md5="0" * 32), *entry.outs[1:])))
    assert not read_lock(text, wanted=changed).entries
    further = replace(whole["train"], name="further/dvc.yaml:train")
    assert [*read_lock(text, pipeline="further/dvc.yaml:", wanted=[further]).entries] == [further.name]


def test_the_chain_goes_back_to_raw_data_and_leaves_out_what_has_no_part(repository):
    lock = read_lock(text_of(repository))
    names = [entry.name for entry in lock.chain("retrieval")]
    assert names[0] == "retrieval"
    assert set(names) == {"retrieval", "select", "train", "features", "captions", "resize", "corpus"}
    for entry in lock.chain("report"):
        for source in lock.sources(entry):
            assert [e.name for e in lock.chain("report")].index(source.name) > [
                e.name for e in lock.chain("report")
            ].index(entry.name)


def test_a_merge_conflict_is_told_with_its_line_and_how_to_end_it(repository):
    lines = text_of(repository).splitlines(keepends=True)
    lines[5:5] = ["<<<<<<< HEAD\n", lines[5], "=======\n", "      md5: 00\n", ">>>>>>> other\n"]
    with pytest.raises(LineageError, match=r"dvc.lock, line 6: has an unresolved merge conflict.*git checkout --ours"):
        read_lock("".join(lines))


def test_a_stage_that_stands_twice_is_refused_as_dvc_refuses_it(repository):
    """As after a merge by hand: which of the two is meant, nobody knows."""
    text = text_of(repository)
    first = text[text.index("  corpus:") : text.index("  resize:")]
    spread = "schema: '2.0'\nstages:\n    a: {cmd: x}\n    a: {cmd: y}\n"
    for twice, said in (
        (text + first, "corpus twice"),
        (text + "stages:\n" + first, "is not valid YAML"),
        (spread, "a stands twice"),
    ):
        with pytest.raises(DvcException):
            parse_yaml(twice, LOCK)
        with pytest.raises(LineageError, match=rf"dvc.lock: .*{said}.*Have it back from git"):
            read_lock(twice)


@pytest.mark.parametrize(
    "text",
    ["- a\n- b\n", "stages: 3\n", "schema: '2.0'\nstages:\n  train:\n    cmd: [", "stages:\n  a:\n    deps: []\n",
     "schema: '2.0'\nstages:\n  a:\n    cmd: x\n    outs:\n    - 3\n",
     "schema: '2.0'\nstages:\n  a:\n    cmd: x\n    params:\n      params.yaml: [1]\n"],
)  # fmt: skip
def test_what_is_no_lock_file_is_refused(text):
    with pytest.raises(LineageError, match=r"dvc\.lock"):
        read_lock(text)


@pytest.mark.parametrize("text", ["", "schema: '2.0'\n", "schema: '2.0'\nstages: {}\n"])
def test_an_empty_lock_has_no_stages(text):
    assert read_lock(text) == Lock({})


def test_stages_in_a_circle_are_told(repository):
    text = """\
schema: '2.0'
stages:
  a:
    cmd: x
    deps:
    - path: b
      md5: '00'
    outs:
    - path: a
      md5: '00'
  b:
    cmd: x
    deps:
    - path: a
      md5: '00'
    outs:
    - path: b
      md5: '00'
"""
    with pytest.raises(LineageError, match="a -> b -> a"):
        read_lock(text).chain("a")


@pytest.mark.parametrize("name", ["dvc.lock", "params.yaml", "dvc.yaml"])
def test_our_own_files_are_read_as_the_parser_of_dvc_reads_them(repository, name):
    text = (repository / name).read_text()
    assert yaml_reader.parse(text, name) == YAML(typ="safe", pure=True).load(text)


CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\x85\u2028\u2029")
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(CHARACTERS, max_size=20)


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), SCALARS | st.lists(SCALARS, max_size=4), max_size=6)
)
def test_what_the_parser_of_dvc_writes_comes_back(values):
    buffer = io.StringIO()
    YAML().dump(values, buffer)
    assert yaml_reader.parse(buffer.getvalue(), "values") == values


def read_both(text):
    """What DVC reads, and what is read here; of a text that is refused, its error's class."""
    found = []
    for read, refusal in (
        (lambda: parse_yaml(text, "text"), Exception),
        (lambda: yaml_reader.parse(text, "text"), FileFormatError),
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
        assert ours is FileFormatError
    else:
        assert ours == theirs
        assert type(ours["key"]) is type(theirs["key"])


@given(st.text("0123456789_.eE+-xob", min_size=1, max_size=8))
def test_any_number_is_the_one_that_dvc_reads(text):
    theirs, ours = read_both(f"key: {text}")
    assert (ours is FileFormatError) if theirs is Exception else (repr(ours) == repr(theirs))


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01T10:00:00Z", "2026-01-01 10:00:00.5"])
def test_a_date_is_a_text_and_the_same_after_dvc_wrote_it(text):
    ours = yaml_reader.parse(f"key: {text}", "text")
    assert isinstance(ours["key"], str)
    assert yaml_reader.parse(dumps_yaml(parse_yaml(f"key: {text}", "text")), "text") == ours
