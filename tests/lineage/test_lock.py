"""What a lock file says, read from files that DVC wrote and from files that something went wrong with."""

from __future__ import annotations

import dataclasses

import pytest
from dvc.exceptions import DvcException
from dvc.utils.serialize import parse_yaml
from ruamel.yaml import YAML

from pipeline.lineage.lock import Lock, entry_key, read_lock
from pipeline.pipelines import LOCK
from sightword.errors import LineageError


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
    import io

    yaml, buffer = YAML(), io.StringIO()
    yaml.indent(mapping=4, sequence=6, offset=4)
    yaml.dump(YAML(typ="safe", pure=True).load(text_of(repository)), buffer)
    assert buffer.getvalue() != text_of(repository)
    assert read_lock(buffer.getvalue()) == read_lock(text_of(repository))


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
        (text + "stages:\n" + first, "stages stands twice"),
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


def test_the_key_of_an_entry_is_that_of_its_inputs(repository):
    entry = read_lock(text_of(repository)).entries["train"]
    deps = {dep.path: dep.md5 for dep in entry.deps}
    assert entry_key("train", entry.command, entry.params, deps) == entry.key
    assert dataclasses.replace(entry, outs=()).key == entry.key
    changed = [
        entry_key("other", entry.command, entry.params, deps),
        entry_key("train", "other", entry.params, deps),
        entry_key("train", entry.command, {}, deps),
        entry_key("train", entry.command, entry.params, deps | {"data/captions": "00"}),
    ]
    assert len({entry.key, *changed}) == 5
