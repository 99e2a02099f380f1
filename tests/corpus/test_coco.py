"""COCO's JSON and Karpathy's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError


def write(folder: Path, name: str, images: dict[int, str], annotations: list[tuple[int, int, str]]) -> None:
    document = {
        "info": {},
        "images": [{"id": number, "file_name": file} for number, file in images.items()],
        "annotations": [{"id": key, "image_id": image, "caption": text} for key, image, text in annotations],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(document))


def read(folder: Path, **settings: Any) -> Corpus:
    values = {"path": str(folder), "pictures": str(folder / "pictures"), "require_pictures": False} | settings
    return read_corpus(CorpusSettings(format="coco", **values))


def small(folder: Path) -> None:
    write(folder, "captions_train2014.json", {1: "t1.jpg", 2: "t2.jpg"}, [(12, 1, "b"), (11, 1, "a"), (13, 2, "c")])
    write(folder, "captions_val2014.json", {7: "v7.jpg"}, [(3, 7, "x"), (4, 7, "x"), (5, 99, "lost")])


def test_splits_have_files_and_captions_ordered_by_id(tmp_path: Path) -> None:
    small(tmp_path / "annotations")
    corpus = read(tmp_path)
    assert [(image.image_id, image.split) for image in corpus.images] == [
        ("t1.jpg", "train"),
        ("t2.jpg", "train"),
        ("v7.jpg", "dev"),
    ]
    assert [caption.text for caption in corpus.captions] == ["a", "b", "c", "x", "x"]
    assert [(row.kind, row.reason) for row in corpus.dropped] == [("caption", "unknown picture")]


def test_missing_empty_or_repeated_file_is_reported(tmp_path: Path) -> None:
    small(tmp_path)
    with pytest.raises(CorpusError, match=r"has no captions_val2017\.json"):
        read(tmp_path, coco_dev=["captions_val2017.json"])
    with pytest.raises(ValidationError, match="listed twice"):
        read(tmp_path, coco_test=["captions_val2014.json"])
    write(tmp_path, "captions_val2014.json", {1: "t1.jpg"}, [(30, 1, "z")])
    with pytest.raises(
        CorpusError,
        match=r"picture 't1\.jpg' stands twice, with the split 'train' .*train2014\.json.* and the split 'dev'",
    ):
        read(tmp_path)


def test_null_caption_is_dropped_as_an_empty_one(tmp_path: Path) -> None:
    small(tmp_path)
    file = tmp_path / "captions_train2014.json"
    file.write_text(file.read_text().replace('"caption": "a"', '"caption": null'))
    assert [(row.item, row.reason) for row in read(tmp_path).dropped][1:] == [("t1.jpg#11", "empty caption")]
    corpus = read_karpathy(tmp_path, [entry("d.jpg", "test", "One .") | {"sentences": [{"raw": None}, {"raw": "A"}]}])
    assert [row.reason for row in corpus.dropped] == ["empty caption"]


def test_fault_of_a_picture_is_told_in_its_own_list(tmp_path: Path) -> None:
    (tmp_path / "captions_train2014.json").write_text(json.dumps({"images": [{}], "annotations": []}))
    with pytest.raises(CorpusError, match=r"json, images\[0\]: has no key 'file_name'"):
        read(tmp_path, coco_dev=[])


def test_one_name_in_two_sets_is_two_pictures(tmp_path: Path) -> None:
    write(tmp_path, "captions_train.json", {1: "1.jpg", 2: "2.jpg"}, [(1, 1, "A cat."), (2, 2, "A cow.")])
    write(tmp_path, "captions_val.json", {1: "1.jpg"}, [(1, 1, "A dog.")])
    files = {"coco_train": ["captions_train.json"], "coco_dev": ["captions_val.json"]}
    with pytest.raises(CorpusError, match="stands twice, with the split "):
        read(tmp_path, **files)
    for name in ("train/1.jpg", "train/2.jpg", "val/1.jpg"):
        (tmp_path / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pictures" / name).touch()
    corpus = read(tmp_path, require_pictures=True, **files)
    assert [(one.image_id, one.path, one.split) for one in corpus.images] == [
        ("2.jpg", "train/2.jpg", "train"),
        ("train/1.jpg", "train/1.jpg", "train"),
        ("val/1.jpg", "val/1.jpg", "dev"),
    ]
    assert [row.text for row in corpus.captions] == ["A cow.", "A cat.", "A dog."]


def entry(name: str, split: str, *raw: str, **more: Any) -> dict[str, Any]:
    sentences = [
        {"raw": text, "tokens": text.lower().strip(" .").split(), "sentid": number} for number, text in enumerate(raw)
    ]
    return {"filename": name, "split": split, "sentences": sentences, **more}


def read_karpathy(folder: Path, images: list[Any] | None = None, **settings: Any) -> Corpus:
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
    corpus = read_karpathy(tmp_path, ENTRIES)
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


def test_order_of_the_file_and_joined_tokens_are_kept(tmp_path: Path) -> None:
    corpus = read_karpathy(tmp_path, ENTRIES, restval="none", text="tokens")
    order = dict(zip([image.image_id for image in corpus.images], corpus.positions, strict=True))
    assert sorted(order, key=order.__getitem__) == ["d.jpg", "a.jpg", "c.jpg"]
    assert [(row.item, row.reason) for row in corpus.dropped] == [("b.jpg", "in no split")]
    assert corpus.captions[-1].text == "a dog runs ."


def test_picture_lies_in_the_folder_of_its_entry(tmp_path: Path) -> None:
    (tmp_path / "images" / "val2014").mkdir(parents=True)
    (tmp_path / "images" / "val2014" / "a.jpg").touch()
    corpus = read_karpathy(tmp_path, [entry("a.jpg", "test", "A .", filepath="val2014")], require_pictures=True)
    assert [(image.image_id, image.path) for image in corpus.images] == [("a.jpg", "val2014/a.jpg")]


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "names no pictures"),
        ([entry("a.jpg", "training", "A .")], r"images\[0\]: unknown split 'training'; expected one of train, restval"),
        ([entry("a.jpg", "train", "A .", filepath="/etc")], "an absolute path"),
        ([{**entry("a.jpg", "train"), "sentences": [{"raw": 3}]}], r"sentences\[0\]: raw is 3; expected a text"),
    ],
)
def test_wrong_entry_is_named_with_its_place(tmp_path: Path, images: list[Any], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read_karpathy(tmp_path, images)


def test_one_of_several_files_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"must have one file dataset_.* but has none"):
        read_karpathy(tmp_path)
    read_karpathy(tmp_path, ENTRIES)
    (tmp_path / "dataset_y.json").write_text("{}")
    with pytest.raises(CorpusError, match=r"dataset_x\.json, dataset_y\.json.*corpus\.file"):
        read_karpathy(tmp_path)
    assert len(read_karpathy(tmp_path, file="dataset_x.json").images) == 4


def test_real_excerpt_reports_its_repeated_entries(real_data: Path) -> None:
    corpus = read_karpathy(
        real_data / "flickr8k", file="karpathy_excerpt.json", pictures=str(real_data / "flickr8k/none")
    )
    assert corpus.counts() == {"train": 537, "dev": 97, "test": 81}
    assert len(corpus.captions) == 5 * 715
    assert {row.reason for row in corpus.dropped} == {"duplicate"}
    assert sum(row.kind == "picture" for row in corpus.dropped) == 762 - 715
