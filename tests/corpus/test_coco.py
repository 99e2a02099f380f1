"""COCO's own JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError, ParamsError


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
    with pytest.raises(ParamsError, match="listed twice"):
        read(tmp_path, coco_test=["captions_val2014.json"])
    with pytest.raises(ParamsError, match="no file is listed"):
        read(tmp_path, coco_train=[], coco_dev=[])
    write(tmp_path, "captions_val2014.json", {7: "v7.jpg"}, [])
    with pytest.raises(CorpusError, match="holds no captions"):
        read(tmp_path)
    write(tmp_path, "captions_val2014.json", {1: "t1.jpg"}, [(30, 1, "z")])
    with pytest.raises(CorpusError, match=r"'t1\.jpg' is in two splits"):
        read(tmp_path)
