"""The table of captions and the stage that makes it."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import (
    CaptionTable,
    check_vocabulary,
    read_captions,
    read_texts,
    subset,
    write_captions,
)
from sightword.captions.vocabulary import Vocabulary
from sightword.corpus.reading import clean
from sightword.corpus.records import Caption, Image, write_tables
from sightword.errors import CaptionsError, FileFormatError
from sightword.io.files import write_table
from stages.captions import work

TEXTS = {"a.jpg": ("train", ["A dog .", "Zwei Hunde ."]), "b.jpg": ("dev", ["a cat !"]), "c.jpg": ("test", ["É"])}


def corpus(folder: Path) -> None:
    images = [Image(name, name, split) for name, (split, _) in TEXTS.items()]
    captions = [Caption(name, str(key), text) for name, (_, own) in TEXTS.items() for key, text in enumerate(own)]
    write_tables(folder, clean(images, captions, None, require_pictures=False), "pictures")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    corpus(tmp_path / "data/corpus")
    return tmp_path


def test_the_vocabulary_is_from_the_training_captions_only(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        work(CaptionsSettings())
    table = read_captions("data/captions/captions.parquet")
    vocabulary = Vocabulary.load("data/captions/vocabulary.json")
    assert set(vocabulary.tokens) == set("A dog .Zwei Hunde .")
    assert table.texts == ["A dog .", "Zwei Hunde .", "a cat !", "É"]
    assert [vocabulary.encode(text) for text in table.texts] == [ids.tolist() for ids in table.ids]
    assert (table.image_ids, table.captions) == (["a.jpg", "a.jpg", "b.jpg", "c.jpg"], [0, 1, 0, 0])
    assert caplog.messages[-1].endswith("unknown characters: 5 in dev, 1 in test")


def test_captions_of_another_vocabulary_are_refused(workspace: Path) -> None:
    work(CaptionsSettings())
    table = read_captions("data/captions/captions.parquet")
    check_vocabulary(table, Vocabulary.load("data/captions/vocabulary.json"))
    with pytest.raises(
        CaptionsError, match=r"c.p: a\.jpg#1 has the id 14, which the vocabulary lacks; expected ids below 6"
    ):
        check_vocabulary(table, Vocabulary.build(["wxyz"]), where="c.p")
    other = Vocabulary.build(["abcdefghijklmnopqrstuvwxyz"])
    with pytest.raises(CaptionsError, match=r"a\.jpg#0 has ids that differ from the vocabulary's"):
        check_vocabulary(table, other)


def test_the_stage_repeats_its_bytes_and_keeps_the_earlier_output_on_an_error(workspace: Path) -> None:
    work(CaptionsSettings())
    before = {path.name: path.read_bytes() for path in Path("data/captions").iterdir()}
    work(CaptionsSettings())
    assert {path.name: path.read_bytes() for path in Path("data/captions").iterdir()} == before
    Path("data/corpus/captions.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileFormatError):
        work(CaptionsSettings())
    assert {path.name: path.read_bytes() for path in Path("data/captions").iterdir()} == before


def test_a_split_keeps_the_order_and_an_empty_split_is_refused(workspace: Path) -> None:
    work(CaptionsSettings(case="lower"))
    table = read_captions("data/captions/captions.parquet")
    train = table.split("train")
    assert len(train) == 2
    assert train.texts == ["A dog .", "Zwei Hunde ."]
    assert len(train.ids[0]) == 7
    assert train.ids[0].dtype == np.int32
    with pytest.raises(CaptionsError, match="no split is called 'val'"):
        table.split("val")
    with pytest.raises(CaptionsError, match="the split 'dev' has no captions"):
        train.split("dev")


rows = st.lists(st.tuples(st.text(max_size=3), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9)), min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(rows)
def test_a_written_table_is_read_back_unchanged(tmp_path: Path, content: list[tuple[str, list[int]]]) -> None:
    count = len(content)
    table = CaptionTable(
        [name for name, _ in content],
        list(range(count)),
        ["train"] * count,
        [name * 2 for name, _ in content],
        [np.array(ids, np.int32) for _, ids in content],
    )
    write_captions(tmp_path / "captions.parquet", table)
    again = read_captions(tmp_path / "captions.parquet")
    assert (again.image_ids, again.captions, again.splits, again.texts) == (
        table.image_ids,
        table.captions,
        table.splits,
        table.texts,
    )
    assert [ids.tolist() for ids in again.ids] == [ids for _, ids in content]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("ids", pa.array([[]], pa.list_(pa.int32())), r"1 captions have no ids, first a\.jpg#0"),
        ("ids", pa.array([[2.5]], pa.list_(pa.float32())), "the column ids is list"),
        ("caption", pa.array(["0"]), "the column caption is string; expected int32"),
        ("text", pa.array([None], pa.string()), "the column text has empty cells"),
    ],
)
def test_a_table_with_a_wrong_column_is_refused(tmp_path: Path, column: str, values: Any, message: str) -> None:
    good = {
        "image_id": pa.array(["a.jpg"]),
        "caption": pa.array([0], pa.int32()),
        "split": pa.array(["train"]),
        "text": pa.array(["A"]),
        "ids": pa.array([[2]], pa.list_(pa.int32())),
    }
    write_table(tmp_path / "captions.parquet", pa.table(good | {column: values}))
    with pytest.raises(CaptionsError, match=message):
        read_captions(tmp_path / "captions.parquet")
    if column == "ids":
        assert len(read_texts(tmp_path / "captions.parquet")) == 1


@given(pictures=st.integers(0, 9), captions=st.integers(0, 4), more=st.integers(0, 9))
def test_a_part_of_training_has_the_numbers_asked_for_and_grows_by_pictures_and_captions(
    pictures: int, captions: int, more: int
) -> None:
    rows = [(f"{name}.jpg", key, split) for split in ("train", "dev") for name in range(9) for key in range(4)]
    names, keys, splits = (list(column) for column in zip(*rows, strict=True))
    table = CaptionTable(names, keys, splits, [f"{row}" for row in rows], [])
    small = subset(table, CaptionsSettings(train_pictures=pictures, train_captions=captions))
    assert small.split("dev") == table.split("dev")
    kept = small.split("train")
    assert len(set(kept.image_ids)) == (pictures or 9)
    assert kept.captions == [*range(captions or 4)] * (pictures or 9)
    larger = subset(table, CaptionsSettings(train_pictures=pictures and max(pictures, more)))
    assert set(kept.texts) <= set(larger.texts)


def test_a_seed_without_a_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="draw_seed is 3 with draw first"):
        CaptionsSettings(draw_seed=3)


def drawn(names: str, seed: int, captions: int, pictures: int = 0) -> list[tuple[str, int]]:
    """The training captions, of five for each picture, that a hash draws."""
    rows = [(name, key, split) for name in names for key, split in enumerate(["train"] * 5 + ["dev"])]
    table = CaptionTable(*map(list, zip(*rows, strict=True)), [str(row) for row in rows], [])
    choice = CaptionsSettings(train_pictures=pictures, train_captions=captions, draw="hash", draw_seed=seed)
    kept = subset(table, choice)
    assert kept.split("dev") == table.split("dev")
    train = kept.split("train")
    return list(zip(train.image_ids, train.captions, strict=True))


@given(names=st.sets(st.sampled_from("abcdefgh"), min_size=1), seed=st.integers(0, 3), n=st.integers(1, 4))
def test_hash_draws_captions_of_each_picture_by_itself(names: set[str], seed: int, n: int) -> None:
    found = drawn("".join(sorted(names)), seed, n)
    assert found == sorted(found)
    for name in names:
        own = [key for picture, key in found if picture == name]
        by_hand = sorted(range(5), key=lambda key: hashlib.sha256(f"{seed}\n{name}\n{key}".encode()).digest())
        assert own == sorted(by_hand[:n])


def test_seeds_draw_other_pictures_with_the_same_captions() -> None:
    names = "abcdefgh"
    few = {seed: drawn(names, seed, captions=1, pictures=4) for seed in range(4)}
    assert len({frozenset(name for name, _ in kept) for kept in few.values()}) > 1
    for seed, kept in few.items():
        assert len(kept) == 4
        assert {*kept} <= {*drawn(names, seed, captions=1, pictures=6)} <= {*drawn(names, seed, captions=1)}


def test_more_training_pictures_than_there_are_is_one_error(workspace: Path) -> None:
    with pytest.raises(CaptionsError, match=r"train_pictures is 2, and the corpus has 1 training picture.*at most 1"):
        work(CaptionsSettings(train_pictures=2))
