"""What is kept, what is dropped, and in which order; captions of other pictures; a format is one class."""

from __future__ import annotations

import errno
import gzip
import os
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pipeline import pipelines
from pipeline.params import params_file, reference
from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import read_captions, read_texts
from sightword.corpus.listing import Listing, list_pictures, walk
from sightword.corpus.reading import clean, read_corpus
from sightword.corpus.records import Caption, Corpus, Image, check_path
from sightword.corpus.settings import FORMATS, CorpusSettings, read_list
from sightword.errors import CaptionsError, CorpusError, ParamsError
from sightword.evaluation.semantics.datasets import SUBTASKS, read_task
from sightword.evaluation.semantics.results import bare
from sightword.io.opening import lines
from sightword.search.picture_files import list_pictures as photographs
from sightword.settings import BESIDE, LONGEST_TEXT, SPLITS, Settings
from stages import captions as stage_captions
from stages import corpus as stage_corpus
from stages.system import conflicts

names = st.sampled_from(["a.jpg", "b.jpg", "c.jpg", "sub/d.jpg"])
splits = {"a.jpg": "train", "b.jpg": "dev", "c.jpg": None, "sub/d.jpg": "test"}
images = st.lists(names.map(lambda name: Image(name, name, splits[name])))
captions = st.lists(
    st.tuples(names, st.integers(0, 3), st.sampled_from(["x", "yy", " ", ""])), unique_by=lambda c: c[:2]
)


@given(images, captions, st.frozensets(names), st.booleans())
def test_every_record_is_kept_or_dropped(
    named: list[Image], texts: list[tuple[str, int, str]], files: frozenset[str], require: bool
) -> None:
    anchor, caption = Image("z.jpg", "z.jpg", "train"), Caption("z.jpg", "0", "always there")
    records = [Caption(name, str(number), text) for name, number, text in texts]
    listing = Listing(Path("pictures"), files | {"z.jpg"})
    corpus = clean([*named, anchor], [*records, caption], listing, require_pictures=require)

    kept = {image.image_id for image in corpus.images}
    assert [image.image_id for image in corpus.images] == sorted(kept)
    assert {text.image_id for text in corpus.captions} == kept
    assert all(text.text.strip() for text in corpus.captions)
    assert all(image.split is not None for image in corpus.images)
    assert all(image.path in listing.files if image.path else not require for image in corpus.images)
    # Oracle: a picture is kept just when nothing speaks against it.
    for image in set(named):
        spoken = any(name == image.image_id and text.strip() for name, _, text in texts)
        fine = image.split is not None and spoken and (not require or image.path in listing.files)
        assert (image.image_id in kept) == fine
    dropped = Counter(row.item for row in corpus.dropped if row.kind == "picture" and row.reason != "duplicate")
    assert all(dropped[image.image_id] == (image.image_id not in kept) for image in set(named))


def test_equal_captions_of_one_picture_stay(tmp_path: Path) -> None:
    both = [Caption("a.jpg", "0", "A dog ."), Caption("a.jpg", "1", "A dog .")]
    corpus = clean([Image("a.jpg", "a.jpg", "test")], both, None, require_pictures=False)
    assert corpus.captions == both
    assert corpus.images[0].path is None


def test_long_caption_is_dropped_and_nul_refused_by_any_reader() -> None:
    image, good = Image("a.jpg", "a.jpg", "test"), Caption("a.jpg", "0", "b" * LONGEST_TEXT)
    long, nul = (Caption("a.jpg", text, text, "x.json, row 7") for text in (f"{good.text}b", "a\0b"))
    corpus = clean([image], [good, long], None, require_pictures=False)
    assert corpus.captions == [good]
    assert [(row.reason, len(row.item)) for row in corpus.dropped] == [("too long", 80)]
    with pytest.raises(CorpusError, match=r"^x\.json, row 7: the caption has a NUL; expected plain text$"):
        clean([image], [good, nul], None, require_pictures=False)


def test_empty_result_reports_records_and_folder() -> None:
    image, caption = Image("a.jpg", "a.jpg", "train"), Caption("a.jpg", "0", "A .")
    with pytest.raises(CorpusError, match=r"1 no picture file.*corpus\.pictures \(wrong/folder\)"):
        clean([image], [caption], Listing(Path("wrong/folder"), frozenset()), require_pictures=True)


@pytest.mark.parametrize(
    "path", ["/a.jpg", "x/../../a.jpg", "", " ", "a//b.jpg", "./a.jpg", "a\n.jpg", "a\x85", "x" * 999]
)
def test_odd_paths_are_refused(path: str) -> None:
    with pytest.raises(CorpusError, match="somewhere"):
        check_path(path, "somewhere")


def test_fault_of_captions_is_told_before_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("version https://git-lfs.github.com/spec/v1\n")
    settings = CorpusSettings(format="table", path=str(tmp_path), pictures=str(tmp_path / "images"))
    with pytest.raises(CorpusError, match=r"a\.csv: is a pointer of Git LFS: run `git lfs pull`"):
        read_corpus(settings)
    (tmp_path / "a.csv").write_text("image,caption,split\na.jpg,A .,train\n")
    with pytest.raises(CorpusError, match="the folder of pictures does not exist"):
        read_corpus(settings)


def test_linked_folders_are_listed_without_loops(tmp_path: Path) -> None:
    (tmp_path / "pictures" / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    for name in ("pictures/a.jpg", "pictures/sub/b.jpg", "other/c.jpg"):
        (tmp_path / name).touch()
    os.symlink(tmp_path / "other", tmp_path / "pictures" / "linked")
    os.symlink(tmp_path / "pictures", tmp_path / "pictures" / "sub" / "loop")
    listing = list_pictures(tmp_path / "pictures", required=True)
    assert listing is not None
    assert listing.files == {"a.jpg", "sub/b.jpg", "linked/c.jpg"}
    assert listing.circular == listing.misnamed == set()


@pytest.mark.parametrize("form", ["table", "shards"])
def test_linked_folder_of_captions_is_left_with_a_warning(tmp_path: Path, caplog: Any, form: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "data/a-link")
    for name in ("elsewhere/more.parquet", "elsewhere/1.tar", "data/train.parquet", "data/0.tar"):
        (tmp_path / name).touch()
    settings = CorpusSettings(format=form, path=str(tmp_path / "data"), pictures=str(tmp_path / "data"))
    assert settings.files() == [{"table": "train.parquet", "shards": "0.tar"}[form]]
    assert [str(tmp_path / "data/a-link") in text and "DVC" in text for text in caplog.messages] == [True]


def test_photographs_behind_links_are_read_without_loops(tmp_path: Path) -> None:
    for name in ("far/off", "mine/inner"):
        (tmp_path / "home" / name).mkdir(parents=True)
    mine, far = tmp_path / "home/mine", tmp_path / "home/far"
    for name in ("outside.jpg", "home/beside.jpg", "home/far/no.jpg", "home/far/off/a.jpg", "home/mine/b.jpg"):
        (tmp_path / name).touch()
    os.symlink(far / "off", mine / "a-link")
    os.symlink("..", mine / "inner/up")
    os.symlink("../..", mine / "inner/above")
    os.symlink("..", far / "off/up")
    assert [source.image_id for source in photographs(mine)] == ["a-link/a.jpg", "b.jpg"]


def test_unreadable_folder_stops_pictures_alone(tmp_path: Path, caplog: Any, monkeypatch: Any) -> None:
    (tmp_path / "lost+found").mkdir()
    for name in ("train.parquet", "0.tar"):
        (tmp_path / name).touch()
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if Path(path).name == "lost+found":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    options = {"path": str(tmp_path), "pictures": str(tmp_path)}
    assert CorpusSettings(format="table", **options).files() == ["train.parquet"]
    assert CorpusSettings(format="shards", **options).files() == ["0.tar"]
    assert caplog.messages == [f"folder {tmp_path}/lost+found left out: Permission denied"] * 2
    with pytest.raises(CorpusError, match="cannot be listed"):
        list_pictures(tmp_path, required=True)


def test_folder_comes_before_a_link_to_it(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/x.jpg").touch()
    os.symlink("b", tmp_path / "a")
    assert [name for name, _ in walk(tmp_path)] == ["b/x.jpg"]


def test_odd_names_and_circular_links_are_listed_apart(tmp_path: Path) -> None:
    for name in (b"a.jpg", b"caf\xe9.jpg", "caf\u00e9.jpg".encode()):
        (tmp_path / os.fsdecode(name)).touch()
    for name, target in (("one", "two"), ("two", "one"), ("gone", "nowhere")):
        os.symlink(target, tmp_path / name)
    listing = list_pictures(tmp_path, required=True)
    assert listing is not None
    assert listing.files == {"a.jpg", "caf\u00e9.jpg", "one", "two", "gone"}
    assert listing.misnamed == {r"caf\xe9.jpg"}
    assert listing.circular == {"one", "two"}


NAMED = [Image("caf\u00e9.png", "caf\u00e9.png", "train"), Image("a.png", "a.png", "train")]
SPOKEN = [Caption("caf\u00e9.png", "0", "A cup."), Caption("a.png", "0", "A box.")]


def test_file_in_another_unicode_form_is_the_picture(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    listing = Listing(Path("pictures"), frozenset({"cafe\u0301.png", "a.png"}))
    corpus = clean(NAMED, SPOKEN, listing, require_pictures=True)
    assert [(one.image_id, one.path) for one in corpus.images] == [
        ("a.png", "a.png"),
        ("caf\u00e9.png", "cafe\u0301.png"),
    ]
    assert corpus.dropped == []
    assert "1 picture found by the name in another Unicode form" in caplog.text


@pytest.mark.parametrize(
    ("file", "forms"),
    [("A.png", "capitals"), ("images/a.png", "folder"), ("a.jpg", "ending")],
)
def test_file_that_differs_in_form_stops_the_stage(file: str, forms: str) -> None:
    listing = Listing(Path("pictures"), frozenset({"caf\u00e9.png", file}))
    message = rf"pictures: 1 name of the corpus .*'a\.png' is there as '{file}', which differs in: {forms}\. Correct"
    with pytest.raises(CorpusError, match=message):
        clean(NAMED, SPOKEN, listing, require_pictures=True)


OWN = {"train": "12_a.jpg", "dev": "34_b.jpg", "test": "56_c.jpg"}


def settings_of(folder: Path, **values: object) -> CorpusSettings:
    """A corpus of the pictures OWN in the format flickr8k, and the folder ``beside``."""
    place = folder / "flickr8k"
    place.mkdir(exist_ok=True)
    (folder / "beside").mkdir(exist_ok=True)
    spoken = [f"{name}#0\tA dog in the {split} split\n" for split, name in OWN.items()]
    (place / "Flickr8k.token.txt").write_text("".join([*spoken, "78_d.jpg#0\tIn no split\n"]))
    for split, name in OWN.items():
        (place / f"Flickr_8k.{split}Images.txt").write_text(f"{name}\n")
    known = {"path": str(place), "pictures": str(place), "require_pictures": False, "beside": str(folder / "beside")}
    return CorpusSettings(format="flickr8k", **{**known, **values})


def write(folder: Path, **texts: list[str]) -> None:
    """Files of lines, whose names have ``__`` for a dot; those in gz are packed."""
    for name, rows in texts.items():
        path, data = folder / "beside" / name.replace("__", "."), "".join(f"{line}\n" for line in rows).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def read(folder: Path, pattern: str = "*.en*", **values: object) -> Corpus:
    return read_corpus(settings_of(folder, beside_files=pattern, **values))


def test_lines_of_files_of_one_name_are_groups(tmp_path: Path) -> None:
    settings_of(tmp_path)
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


def test_files_of_one_name_in_two_folders_are_apart(tmp_path: Path) -> None:
    settings_of(tmp_path)
    for name in ("p", "q"):
        (tmp_path / "beside" / name).mkdir()
        (tmp_path / "beside" / name / "val.1.en").write_text(f"of {name}\n")
    wanted = [("p/val.en:1", "of p"), ("q/val.en:1", "of q")]
    assert [(one.image_id, one.text) for one in read(tmp_path, "*/*.en").beside] == wanted
    assert read(tmp_path, "p/*.en").beside[0].image_id == "val.en:1"


def test_long_caption_beside_is_dropped(tmp_path: Path) -> None:
    settings_of(tmp_path)
    write(tmp_path, a__1__en=["a" * (LONGEST_TEXT + 1), "kept"])
    found = read(tmp_path)
    assert [one.text for one in found.beside] == ["kept"]
    assert [row.item for row in found.dropped if row.reason == "too long"] == ["a.en:1#a.1.en"]


def test_caption_with_words_of_dev_or_test_is_left_out(tmp_path: Path) -> None:
    settings_of(tmp_path)
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
        ({"a__1__en": ["x"], "a_images__txt": ["12.jpg"]}, "*.en", r"no caption is left \(1 record dropped\)"),
    ],
)
def test_files_that_do_not_fit_are_one_message(tmp_path: Path, texts, pattern, message) -> None:
    settings_of(tmp_path)
    write(tmp_path, **texts)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, pattern)


def test_pattern_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no list 'x'; expected one of .*multi30k-benchmarks"):
        settings_of(tmp_path, beside_without="x")
    with pytest.raises(ValueError, match=r"'\.\./\*' leaves the folder corpus\.beside"):
        settings_of(tmp_path, beside_files="../*")
    for pattern in ("**x", "."):
        with pytest.raises(ValueError, match="is no pattern of files; expected one such as"):
            settings_of(tmp_path, beside_files=pattern)
    values = {"train": {"beside_batch": 8}, "corpus": {"beside_files": ""}}
    assert conflicts(values) == ["train.beside_batch is 8: corpus.beside_files names no captions without pictures"]


def test_captions_of_other_pictures_are_withheld(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = settings_of(tmp_path, beside_files="*.en")
    write(tmp_path, a__1__en=["A \u03a9 dog"], a__2__en=["Hunde"])
    stage_corpus.work(values)
    stage_captions.work(CaptionsSettings())
    table, other = "data/captions/captions.parquet", "data/corpus/captions.parquet"
    assert set(read_captions(table).splits) == set(read_texts(other).splits) == set(OWN)
    found = read_captions(table, withheld=[BESIDE]).split(BESIDE)
    assert found.texts == ["A \u03a9 dog", "Hunde"]
    assert found.ids[0].tolist().count(1) == 1
    assert found.captions == [0, 1]
    with pytest.raises(CaptionsError, match="the split 'beside' has no captions"):
        read_captions(table).split(BESIDE)


def test_list_of_multi30k_names_pictures_of_benchmarks(real_data) -> None:
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


NO_CAPTIONS = {"beside": "data/raw/captions", "beside_files": "", "beside_without": None}
WITHOUT = {
    "path": "data/raw/toy",
    "pictures": "data/raw/toy/pictures",
    "require_pictures": False,
    **NO_CAPTIONS,
    "seal": 0,
}


class Toy(CorpusSettings):
    """One caption a line: picture, blank, caption; the splits in turn."""

    format: Literal["toy"] = "toy"
    first: Literal["train", "dev", "test"] = "train"
    """The split of the first line."""

    def files(self) -> list[str]:
        return ["toy.txt"]

    def read(self, _listing: Listing | None, /) -> tuple[list[Image], list[Caption]]:
        images, captions = [], []
        for number, line in lines(self.folder / "toy.txt", CorpusError):
            name, _, text = line.partition(" ")
            images.append(Image(name, name, SPLITS[(SPLITS.index(self.first) + number - 1) % 3]))
            captions.append(Caption(name, str(number), text))
        return images, captions


def check(repository: Path, values: dict[str, object]) -> Settings:
    whole = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    return params_file.check(whole | {"corpus": values}, pipeline=pipelines.pipelines(repository)[0])["corpus"]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toy_format", SimpleNamespace(Toy=Toy))
    monkeypatch.setitem(FORMATS, "toy", "toy_format:Toy")


@pytest.mark.usefixtures("toy")
def test_registered_format_is_read_checked_and_explained(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "toy.txt").write_text("a.jpg A dog .\nb.jpg A cat .\n")
    values = WITHOUT | {"format": "toy", "first": "dev", "path": str(tmp_path), "pictures": str(tmp_path / "pictures")}
    settings = check(repository, values)
    assert settings == Toy(**values) == CorpusSettings(**values)
    corpus = read_corpus(Toy(**values))
    assert [(image.image_id, image.split) for image in corpus.images] == [("a.jpg", "dev"), ("b.jpg", "test")]
    assert [one.text for one in reference.explain("corpus.first")] == ["Format `toy`: The split of the first line."]


@pytest.mark.usefixtures("toy")
def test_key_of_another_format_is_refused(repository: Path) -> None:
    values = WITHOUT | {"format": "toy", "first": "dev", "restval": "none"}
    with pytest.raises(ParamsError, match=r"corpus\.restval: no such key; accepted: format, path, .*, first"):
        check(repository, values)
    with pytest.raises(ParamsError, match=r"corpus\.first: the key is missing; its published value is 'train'"):
        check(repository, WITHOUT | {"format": "toy"})
    with pytest.raises(ParamsError, match=r"corpus\.draw_dev: the key is missing; its published value is 0\.0"):
        check(repository, WITHOUT | {"format": "table"})


def test_unknown_format_is_refused_with_those_that_exist(repository: Path) -> None:
    with pytest.raises(ParamsError, match="corpus: format is 'toy'; expected one of sample, flickr8k, karpathy, coco"):
        check(repository, WITHOUT | {"format": "toy"})
