"""YAML that people write: what would take for ever, crash the reader or end in a traceback is one message."""

from __future__ import annotations

import pytest

from pipeline.experiments import grid
from pipeline.params import params_file
from sightword.corpus.sample.scene import load_world
from sightword.errors import CorpusError, FileFormatError, ParamsError
from sightword.io import yaml_reader

LEVELS = range(1, 10)
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in LEVELS)
"""Nine levels of aliases: a thousand million values."""
MERGED = "a0: &a0 {k: v}\n" + "".join(f"a{n}:\n  &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in LEVELS)

ODD = [
    pytest.param(BOMB, "line 6, column 25: its aliases stand for more than 100,000 values", id="aliases"),
    pytest.param(MERGED, "its aliases stand for more than 100,000 values", id="merged mappings"),
    pytest.param("a: &a [*a]", "line 1, column 8: the alias *a is part of its own value", id="itself"),
    pytest.param("[" * 3000 + "]" * 3000, "line 1, column 101: is nested more than 100 levels", id="brackets"),
    pytest.param('a: !!int "x"', "line 1, column 4: is not valid YAML (the value 'x' cannot be read as int)", id="int"),
    pytest.param('a: !!float "x"', "the value 'x' cannot be read as float", id="float"),
    pytest.param("a: " + "1" * 5000, "1 ... cannot be read as int", id="digits"),
    pytest.param("%YAML 1.1\n---\na: no", "line 1, column 1: asks for another version of YAML", id="old version"),
    pytest.param("a: \ud83d", "character 4 is not text", id="surrogate"),
    pytest.param("a: *b", "found undefined alias", id="unknown alias"),
]


@pytest.mark.parametrize(("text", "message"), ODD)
def test_text_that_is_no_yaml_is_one_message(text, message):
    with pytest.raises(FileFormatError) as caught:
        yaml_reader.parse(text, "file.yaml")
    assert str(caught.value).startswith("file.yaml")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 250


def test_an_impossible_date_and_a_repeated_key_are_refused():
    with pytest.raises(FileFormatError, match=r"line 2, column 4: .*'2020-99-99' cannot be read as timestamp"):
        yaml_reader.parse("a: 1\nb: 2020-99-99", "file.yaml")
    with pytest.raises(FileFormatError, match=r"line 2, column 1: .*the key a stands twice"):
        yaml_reader.parse("a: 1\na: 2", "file.yaml")


def test_aliases_and_merged_keys_are_read():
    text = "base: &base {a: 1, b: [2, 3]}\nsame: *base\nmore:\n  <<: *base\n  b: 4\n"
    base = {"a": 1, "b": [2, 3]}
    assert yaml_reader.parse(text, "text") == {"base": base, "same": base, "more": {"a": 1, "b": 4}}
    assert yaml_reader.parse("deps: &deps [" + "x, " * 99 + "x]\n" + "".join(f"s{n}: *deps\n" for n in range(500)), "t")
    assert yaml_reader.parse("[" * 100 + "]" * 100, "text")


@pytest.mark.parametrize(
    ("read", "error"), [(params_file.load, ParamsError), (grid.load, ParamsError), (load_world, CorpusError)]
)
def test_every_file_that_people_write_is_checked(tmp_path, read, error):
    for text in (BOMB, "blocks: !!bool x", "[" * 3000):
        (tmp_path / "file.yaml").write_text(text)
        with pytest.raises(error, match=r"file\.yaml, line "):
            read(tmp_path / "file.yaml")
