"""COCO's own JSON."""

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


def test_each_split_has_its_files_and_captions_are_ordered_by_id(tmp_path: Path) -> None:
    small(tmp_path / "annotations")
    corpus = read(tmp_path)
    assert [(image.image_id, image.split) for image in corpus.images] == [
        ("t1.jpg", "train"),
        ("t2.jpg", "train"),
        ("v7.jpg", "dev"),
    ]
    assert [caption.text for caption in corpus.captions] == ["a", "b", "c", "x", "x"]
    assert [(row.kind, row.reason) for row in corpus.dropped] == [("caption", "unknown picture")]


def test_pictures_are_found_in_the_folder_of_their_set_or_beside_it(tmp_path: Path) -> None:
    small(tmp_path)
    (tmp_path / "pictures" / "val2014").mkdir(parents=True)
    for name in ("val2014/v7.jpg", "t1.jpg"):
        (tmp_path / "pictures" / name).touch()
    corpus = read(tmp_path, require_pictures=True)
    assert [image.path for image in corpus.images] == ["t1.jpg", "val2014/v7.jpg"]


def test_a_file_that_is_missing_empty_or_in_two_splits_is_reported(tmp_path: Path) -> None:
    small(tmp_path)
    with pytest.raises(CorpusError, match=r"has no captions_val2017\.json"):
        read(tmp_path, coco_dev=["captions_val2017.json"])
    with pytest.raises(ValidationError, match="listed twice"):
        read(tmp_path, coco_test=["captions_val2014.json"])
    with pytest.raises(ValidationError, match="no file is listed"):
        read(tmp_path, coco_train=[], coco_dev=[])
    write(tmp_path, "captions_val2014.json", {7: "v7.jpg"}, [])
    with pytest.raises(CorpusError, match="holds no captions"):
        read(tmp_path)
    write(tmp_path, "captions_val2014.json", {1: "t1.jpg"}, [(30, 1, "z")])
    with pytest.raises(
        CorpusError,
        match=r"picture 't1\.jpg' stands twice, with the split 'train' .*train2014\.json.* and the split 'dev'",
    ):
        read(tmp_path)


def test_an_image_id_of_two_files_is_an_error_with_both(tmp_path: Path) -> None:
    images = [{"id": 1, "file_name": "red.png"}, {"id": 1, "file_name": "blue.png"}]
    annotations = [{"id": 1, "image_id": 1, "caption": "A red square."}]
    file = tmp_path / "captions_train2014.json"
    file.write_text(json.dumps({"images": images, "annotations": annotations}))
    message = (
        r"images\[1\]: the image id 1 stands twice, with the file 'red\.png' \(.*images\[0\]\) and the file 'blue\.png'"
    )
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, coco_dev=[])
    file.write_text(json.dumps({"images": [images[0], images[0]], "annotations": annotations}))
    assert [row.reason for row in read(tmp_path, coco_dev=[]).dropped] == ["duplicate"]


def test_image_ids_are_those_of_their_own_file(tmp_path: Path) -> None:
    write(tmp_path, "captions_train2014.json", {1: "red.png"}, [(1, 1, "A red square.")])
    write(tmp_path, "captions_val2014.json", {1: "blue.png"}, [(1, 1, "A blue square.")])
    corpus = read(tmp_path)
    assert [(row.image_id, row.text) for row in corpus.captions] == [
        ("blue.png", "A blue square."),
        ("red.png", "A red square."),
    ]


def test_one_name_in_the_folders_of_two_sets_is_two_pictures(tmp_path: Path) -> None:
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
