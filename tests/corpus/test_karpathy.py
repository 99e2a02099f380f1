"""Karpathy's JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError


def entry(name: str, split: str, *raw: str, **more: Any) -> dict[str, Any]:
    sentences = [
        {"raw": text, "tokens": text.lower().strip(" .").split(), "sentid": number} for number, text in enumerate(raw)
    ]
    return {"filename": name, "split": split, "sentences": sentences, **more}


def read(folder: Path, images: list[Any] | None = None, **settings: Any) -> Corpus:
    if images is not None:
        (folder / "dataset_x.json").write_text(json.dumps({"images": images, "dataset": "x"}))
    values = {"path": str(folder), "pictures": str(folder / "images"), "require_pictures": False} | settings
    return read_corpus(CorpusSettings(format="karpathy", **values))


ENTRIES = [
    entry("d.jpg", "test", "A Dog runs ."),
    entry("a.jpg", "train", "One .", "Two .", "Three ."),
    entry("b.jpg", "restval", "Rest ."),
    entry("c.jpg", "val", "Val ."),
]


def test_restval_is_for_training_and_val_is_dev(tmp_path: Path) -> None:
    corpus = read(tmp_path, ENTRIES)
    assert [(image.image_id, image.split) for image in corpus.images] == [
        ("a.jpg", "train"),
        ("b.jpg", "train"),
        ("c.jpg", "dev"),
        ("d.jpg", "test"),
    ]
    assert [caption.text for caption in corpus.captions] == [
        "One .",
        "Two .",
        "Three .",
        "Rest .",
        "Val .",
        "A Dog runs .",
    ]


def test_restval_can_be_left_out(tmp_path: Path) -> None:
    corpus = read(tmp_path, ENTRIES, restval="none")
    assert [image.image_id for image in corpus.images] == ["a.jpg", "c.jpg", "d.jpg"]
    assert [(row.item, row.reason) for row in corpus.dropped] == [("b.jpg", "in no split")]


def test_the_order_of_the_file_is_kept(tmp_path: Path) -> None:
    corpus = read(tmp_path, ENTRIES, restval="none")
    order = dict(zip([image.image_id for image in corpus.images], corpus.positions, strict=True))
    assert sorted(order, key=order.__getitem__) == ["d.jpg", "a.jpg", "c.jpg"]
    assert sorted(corpus.positions) == [0, 1, 2]


def test_tokens_are_joined_by_single_spaces_with_a_full_stop(tmp_path: Path) -> None:
    corpus = read(tmp_path, ENTRIES, text="tokens")
    assert corpus.captions[-1].text == "a dog runs ."


def test_pictures_lie_in_the_folder_that_the_entry_names(tmp_path: Path) -> None:
    (tmp_path / "images" / "val2014").mkdir(parents=True)
    (tmp_path / "images" / "val2014" / "a.jpg").touch()
    corpus = read(tmp_path, [entry("a.jpg", "test", "A .", filepath="val2014")], require_pictures=True)
    assert [(image.image_id, image.path) for image in corpus.images] == [("a.jpg", "val2014/a.jpg")]


def test_the_same_entry_twice_is_a_duplicate_and_empty_captions_are_dropped(tmp_path: Path) -> None:
    corpus = read(tmp_path, [*ENTRIES, ENTRIES[0], entry("e.jpg", "train", "  "), entry("f.jpg", "", "Out .")])
    assert [(row.kind, row.item.split("#")[0], row.reason) for row in corpus.dropped] == [
        ("caption", "d.jpg", "duplicate"),
        ("caption", "e.jpg", "empty caption"),
        ("picture", "d.jpg", "duplicate"),
        ("picture", "e.jpg", "no captions"),
        ("picture", "f.jpg", "in no split"),
    ]


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "names no pictures"),
        ([entry("a.jpg", "training", "A .")], r"images\[0\]: unknown split 'training'; expected one of train, restval"),
        ([{"filename": "a.jpg", "split": "train"}], r"images\[0\]: has no key 'sentences' \(it has: filename, split\)"),
        ([entry("a.jpg", "train", "A ."), 7], r"images\[1\]: 7 is not an object"),
        ([entry("a.jpg", "train", "A .", filepath="/etc")], "leaves the folder of pictures"),
        ([entry("../../a.jpg", "train", "A .")], "leaves the folder of pictures"),
        ([{**entry("a.jpg", "train"), "sentences": [{"raw": 3}]}], r"sentences\[0\]: raw is 3; expected a text"),
    ],
)
def test_a_wrong_entry_is_named_with_its_place(tmp_path: Path, images: list[Any], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, images)


def test_the_only_file_is_found_and_one_of_several_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"must have one file dataset_.* but has none"):
        read(tmp_path)
    read(tmp_path, ENTRIES)
    (tmp_path / "dataset_y.json").write_text("{}")
    with pytest.raises(CorpusError, match=r"dataset_x\.json, dataset_y\.json.*corpus\.file"):
        read(tmp_path)
    assert len(read(tmp_path, file="dataset_x.json").images) == 4
    with pytest.raises(CorpusError, match=r"has no file z\.json"):
        read(tmp_path, file="z.json")


def test_the_real_excerpt_is_read_and_its_repeated_entries_are_reported(real_data: Path) -> None:
    corpus = read(real_data / "flickr8k", file="karpathy_excerpt.json", pictures=str(real_data / "flickr8k/none"))
    assert corpus.counts() == {"train": 537, "dev": 97, "test": 81}
    assert len(corpus.captions) == 5 * 715
    assert {row.reason for row in corpus.dropped} == {"duplicate"}
    assert sum(row.kind == "picture" for row in corpus.dropped) == 762 - 715
