"""The files of rows of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.results.records import Row, path_of, read_row, rows, write_row
from sightword.errors import FileFormatError, ParamsError

WORDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.-]{0,12}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), NUMBERS, TEXTS, st.lists(st.integers(-9, 9)))


@st.composite
def scores(draw: st.DrawFn, *, seeds: int) -> dict[str, Any]:
    low, value, high = sorted([draw(NUMBERS), draw(NUMBERS), draw(NUMBERS)])
    found: dict[str, Any] = {"value": value}
    if draw(st.booleans()):
        found |= {"low": low, "high": high}
    return found | ({"sd": abs(draw(NUMBERS))} if seeds > 1 and draw(st.booleans()) else {})


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    seeds = draw(st.lists(st.lists(st.integers(0, 99), min_size=1), min_size=1, max_size=4))
    distinct = [[100 * run + seed for seed in dict.fromkeys(own)] for run, own in enumerate(seeds)]
    runs = [
        {
            "seeds": own,
            "commit": draw(st.none() | TEXTS),
            "threads": draw(st.none() | st.integers(1, 99)),
            "inputs": draw(st.dictionaries(TEXTS, TEXTS, max_size=3)),
            "scores": draw(st.dictionaries(TEXTS, scores(seeds=len(own)), min_size=1, max_size=4)),
        }
        for own in distinct
    ]
    names = {"topic": draw(WORDS), "name": draw(WORDS), "recipe": draw(TEXTS)}
    return {**names, "overrides": draw(st.dictionaries(TEXTS, PLAIN, max_size=3)), "note": draw(TEXTS), "runs": runs}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("written")


@given(values=documents())
def test_row_written_is_read_as_it_was(folder, values):
    row = Row.model_validate(values)
    path = write_row(folder, row)
    assert path == path_of(folder, row.key)
    read = read_row(path)
    assert sorted(read.runs, key=lambda run: run.seeds) == sorted(row.runs, key=lambda run: run.seeds)
    assert read.model_copy(update={"runs": []}) == row.model_copy(update={"runs": []})
    text = path.read_bytes()
    assert write_row(folder, read).read_bytes() == text


def document() -> dict[str, Any]:
    run = {"seeds": [0], "scores": {"retrieval.test.r10": {"value": 70.0, "low": 68.5, "high": 71.5}}}
    return {"schema": 1, "recipe": "flickr8k", "overrides": {"train.hidden": 64}, "runs": [run]}


def write(project: Path, values: object, key: str = "ngrams/plain") -> Path:
    path = path_of(project, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_rows_of_a_project_are_found_by_topic_and_name(tmp_path):
    for key in ("ngrams/plain", "ngrams/a-longer.1", "cells/gru"):
        write(tmp_path, document(), key)
    assert list(rows(tmp_path)) == ["cells/gru", "ngrams/a-longer.1", "ngrams/plain"]
    assert rows(tmp_path)["cells/gru"].runs[0].scores["retrieval.test.r10"].high == 71.5


def test_written_row_has_a_score_on_each_line(tmp_path):
    row = read_row(write(tmp_path, document()))
    lines = write_row(tmp_path, row).read_text(encoding="utf-8").splitlines()
    assert '        "retrieval.test.r10": {"value": 70.0, "low": 68.5, "high": 71.5}' in lines


def _set(place: list[Any], value: object) -> dict[str, Any]:
    found = document()
    inside: Any = found
    for part in place[:-1]:
        inside = inside[part]
    inside[place[-1]] = value
    return found


SCORE = ["runs", 0, "scores", "retrieval.test.r10"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], ["is not a row", '"schema": 1']),
        (_set(["schema"], 2), ["is not a row", '"schema": 1']),
        (_set(["colour"], "red"), ["colour: no such key"]),
        (_set(["topic"], "ngrams"), ["topic: no such key"]),
        ({"schema": 1, "recipe": "flickr8k"}, ["runs: the key is missing"]),
        (_set(["runs"], []), ["runs = []", "not empty"]),
        (_set(["recipe"], None), ["without a recipe needs a note"]),
        (_set(["recipe"], 3), ["recipe = 3", "expected a text or null"]),
        (_set(["runs", 0, "seeds"], []), ["runs[1].seeds = []"]),
        (_set(["runs", 0, "seeds"], [4, 4]), ["a seed twice: 4"]),
        (_set(["runs"], document()["runs"] * 2), ["a seed twice: 0"]),
        (_set(["runs", 0, "scores"], {}), ["runs[1].scores = {}"]),
        (_set([*SCORE, "value"], "70"), ["runs[1].scores.retrieval.test.r10.value = '70'"]),
        (_set([*SCORE, "value"], True), ["runs[1].scores.retrieval.test.r10.value = True"]),
        (_set([*SCORE, "sd"], 0.2), ["one seed has no deviation"]),
        (_set([*SCORE, "low"], 80.0), ["the lower one first"]),
        (_set([*SCORE, "low"], None), ["both low and high"]),
        (_set([*SCORE, "value"], 94.04), ["runs[1]", "retrieval.test.r10", "94.04", "68.5 to 71.5"]),
        (_set([*SCORE, "value"], 68.4), ["runs[1]", "retrieval.test.r10", "68.4", "68.5 to 71.5"]),
        (_set([*SCORE, "mean"], 3.0), ["runs[1].scores.retrieval.test.r10.mean: no such key"]),
        (_set(["runs", 0, "threads"], 1.5), ["runs[1].threads = 1.5"]),
        (_set(["recipe"], [*"long" * 999]), ["recipe = ['l', 'o',", " ..."]),
    ],
)
def test_wrong_file_gives_one_message_with_file_and_key(tmp_path, values, words):
    path = write(tmp_path, values)
    with pytest.raises(FileFormatError) as raised:
        read_row(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert [word for word in words if word not in str(raised.value)] == []
    assert max(map(len, str(raised.value).splitlines())) < 300


def test_file_that_is_no_json_or_has_a_key_twice_names_the_place(tmp_path):
    path = write(tmp_path, document())
    path.write_text('{"schema": 1,\n"recipe": ', encoding="utf-8")
    with pytest.raises(FileFormatError, match="line 2"):
        read_row(path)
    path.write_text('{"schema": 1, "recipe": "a", "recipe": "b"}', encoding="utf-8")
    with pytest.raises(FileFormatError, match="'recipe' stands twice"):
        read_row(path)


@pytest.mark.parametrize("key", ["plain", "a/b/c", "../plain", "a/.hidden", "a b/c", "-a/b", "a/", "a/b\n"])
def test_name_that_is_no_topic_and_name_is_refused(tmp_path, key):
    with pytest.raises(ParamsError, match=r"TOPIC/NAME"):
        path_of(tmp_path, key)
