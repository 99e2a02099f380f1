"""Captions of other pictures: which are read, which are left out, and who reads them afterwards."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import read_captions, read_texts
from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus
from sightword.corpus.settings import CorpusSettings, read_list
from sightword.errors import CaptionsError, CorpusError
from sightword.evaluation.semantics.datasets import SUBTASKS, read_task
from sightword.evaluation.semantics.results import bare
from sightword.settings import BESIDE
from stages import captions, corpus
from stages.system import conflicts

OWN = {"train": "12_a.jpg", "dev": "34_b.jpg", "test": "56_c.jpg"}


def settings(folder: Path, **values: object) -> CorpusSettings:
    """A corpus of the pictures OWN in the format flickr8k, and the folder ``beside``."""
    place = folder / "flickr8k"
    place.mkdir(exist_ok=True)
    (folder / "beside").mkdir(exist_ok=True)
    lines = [f"{name}#0\tA dog in the {split} split\n" for split, name in OWN.items()]
    (place / "Flickr8k.token.txt").write_text("".join([*lines, "78_d.jpg#0\tIn no split\n"]))
    for split, name in OWN.items():
        (place / f"Flickr_8k.{split}Images.txt").write_text(f"{name}\n")
    known = {"path": str(place), "pictures": str(place), "require_pictures": False, "beside": str(folder / "beside")}
    return CorpusSettings(format="flickr8k", **{**known, **values})


def write(folder: Path, **texts: list[str]) -> None:
    """Files of lines, whose names have ``__`` for a dot; those in gz are packed."""
    for name, lines in texts.items():
        path, data = folder / "beside" / name.replace("__", "."), "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def read(folder: Path, pattern: str = "*.en*", **values: object) -> Corpus:
    return read_corpus(settings(folder, beside_files=pattern, **values))


def test_lines_of_files_of_one_name_are_groups_without_pictures_of_any_split(tmp_path: Path) -> None:
    settings(tmp_path)
    names = ["90.jpg", "34.jpg", "12.jpg", "56.jpg", "78.jpg", "9.jpg"]
    write(tmp_path, part_images__txt=names, part__1__en=[f"one {n}" for n in names], part__1__de=["eins"])
    write(tmp_path, part__2__en__gz=[" two a ", "b", "c", "d", "e", " "])
    write(tmp_path, other__1__en=["a plain one"], other__7__en=["and its paraphrase"])
    found = read(tmp_path)
    assert [(one.image_id, one.text) for one in found.beside] == [
        ("9.jpg", "one 9.jpg"),
        ("90.jpg", "one 90.jpg"),
        ("90.jpg", "two a"),
        ("other.en:1", "a plain one"),
        ("other.en:1", "and its paraphrase"),
    ]
    assert [row.item for row in found.dropped if "beside" in row.reason] == ["12.jpg", "34.jpg", "56.jpg", "78.jpg"]
    assert [image.image_id for image in found.images] == sorted(OWN.values())


def test_caption_with_the_words_of_dev_or_test_is_left_out_whatever_its_picture(tmp_path: Path) -> None:
    settings(tmp_path)
    write(tmp_path, a__1__en=["a DOG, in the  test split.", "A dog in the train split"], a__2__en=["kept", "kept too"])
    found = read(tmp_path)
    assert [one.text for one in found.beside] == ["kept", "A dog in the train split", "kept too"]
    reasons = [(row.item, row.detail) for row in found.dropped if row.reason == "beside, and held out"]
    assert reasons == [("a.en:1#a.1.en", "a DOG, in the  test split.")]


@pytest.mark.parametrize(
    ("texts", "pattern", "message"),
    [
        ({}, "*.en", r"beside: no file fits corpus\.beside_files, \*\.en"),
        ({"a__en": ["x"]}, "*.en", r"a\.en: has no number before its ending; expected such as train\.1\.txt"),
        ({"a__1__en": ["x"], "a__2__en": ["x", "y"]}, "*.en", r"a\.2\.en: has 2 lines, and a\.1\.en has 1"),
        ({"a__1__en": ["x"], "a_images__txt": ["1", "2"]}, "*.en", r"a_images\.txt: has 2 lines, and a\.1\.en has 1"),
        ({"a__1__en": ["x"], "a_images__txt": ["12.jpg"]}, "*.en", r"no caption is left \(1 record dropped\)"),
    ],
)
def test_files_that_do_not_fit_are_one_message(tmp_path: Path, texts, pattern, message) -> None:
    settings(tmp_path)
    write(tmp_path, **texts)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, pattern)


def test_unknown_list_and_a_pattern_that_leaves_the_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no list 'x'; expected one of .*multi30k-benchmarks"):
        settings(tmp_path, beside_without="x")
    with pytest.raises(ValueError, match=r"'\.\./\*' leaves the folder corpus\.beside"):
        settings(tmp_path, beside_files="../*")
    for pattern in ("**x", "."):
        with pytest.raises(ValueError, match="is no pattern of files; expected one such as"):
            settings(tmp_path, beside_files=pattern)
    values = {"train": {"beside_batch": 8}, "corpus": {"beside_files": ""}}
    assert conflicts(values) == ["train.beside_batch is 8: corpus.beside_files names no captions without pictures"]


def test_captions_of_other_pictures_are_withheld_unless_asked_for(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = settings(tmp_path, beside_files="*.en")
    write(tmp_path, a__1__en=["A \u03a9 dog"], a__2__en=["Hunde"])
    corpus.work(values)
    captions.work(CaptionsSettings())
    table, other = "data/captions/captions.parquet", "data/corpus/captions.parquet"
    assert set(read_captions(table).splits) == set(read_texts(other).splits) == set(OWN)
    found = read_captions(table, withheld=[BESIDE]).split(BESIDE)
    assert found.texts == ["A \u03a9 dog", "Hunde"]
    assert found.ids[0].tolist().count(1) == 1
    assert found.captions == [0, 1]
    with pytest.raises(CaptionsError, match="the split 'beside' has no captions"):
        read_captions(table).split(BESIDE)


def test_list_of_multi30k_names_the_pictures_with_a_sentence_of_a_benchmark(real_data) -> None:
    senteval = real_data / "senteval"
    parts = [pairs for name in SUBTASKS for pairs in read_task(name, senteval).subtasks.values()]
    for name in ("STSBenchmark", "SICKRelatedness"):
        task = read_task(name, senteval)
        parts += [task.train, task.dev, task.test]
    known = {bare(text) for pairs in parts for text in (*pairs.first, *pairs.second)} - {""}
    found = set()
    for names in sorted((real_data / "multi30k" / "task2").glob("*_images.txt.gz")):
        pictures = gzip.decompress(names.read_bytes()).decode().split()
        for number in range(1, 6):
            file = names.with_name(names.name.replace("_images.txt", f".{number}.en"))
            lines = gzip.decompress(file.read_bytes()).decode().split("\n")
            found |= {one for one, text in zip(pictures, lines, strict=False) if bare(text) in known}
    assert found == read_list("multi30k-benchmarks")
