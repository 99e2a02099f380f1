"""What is kept, what is dropped, and in which order."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sightword.corpus.cleaning import clean
from sightword.corpus.listing import Listing, list_pictures
from sightword.corpus.records import Caption, Image, check_path, split_name
from sightword.corpus.settings import CorpusSettings
from sightword.corpus.tables import report, write_tables
from sightword.errors import CorpusError

names = st.sampled_from(["a.jpg", "b.jpg", "c.jpg", "sub/d.jpg"])
splits = {"a.jpg": "train", "b.jpg": "dev", "c.jpg": None, "sub/d.jpg": "test"}
images = st.lists(names.map(lambda name: Image(name, name, splits[name])))
captions = st.lists(
    st.tuples(names, st.integers(0, 3), st.sampled_from(["x", "yy", " ", ""])), unique_by=lambda c: c[:2]
)


@given(images, captions, st.frozensets(names), st.booleans())
def test_every_record_is_kept_or_dropped_and_kept_records_are_consistent(
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


def test_an_empty_result_reports_the_dropped_records_and_the_folder() -> None:
    image, caption = Image("a.jpg", "a.jpg", "train"), Caption("a.jpg", "0", "A .")
    with pytest.raises(CorpusError, match=r"1 no picture file.*corpus\.pictures \(wrong/folder\)"):
        clean([image], [caption], Listing(Path("wrong/folder"), frozenset()), require_pictures=True)


@pytest.mark.parametrize(
    "path", ["/a.jpg", "../a.jpg", "x/../../a.jpg", "", " ", "a//b.jpg", "./a.jpg", "a\n.jpg", "a\0"]
)
def test_odd_paths_are_refused(path: str) -> None:
    with pytest.raises(CorpusError, match="somewhere"):
        check_path(path, "somewhere")


@pytest.mark.parametrize("path", ["a.jpg", "sub/ä b.jpg", "2258277193_586949ec62.jpg.1", "..a.jpg", "日本.png"])
def test_plain_paths_are_unchanged(path: str) -> None:
    assert check_path(path, "somewhere") == path


def test_an_empty_split_is_none() -> None:
    assert split_name(" ", "x") is None
    assert split_name(None, "x") is None
    assert split_name("Val", "x") == "dev"


def test_pictures_are_listed_with_linked_folders_and_without_loops(tmp_path: Path) -> None:
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


def test_names_that_are_not_utf8_and_circular_links_are_listed_separately(tmp_path: Path) -> None:
    for name in (b"a.jpg", b"caf\xe9.jpg", "caf\u00e9.jpg".encode()):
        (tmp_path / os.fsdecode(name)).touch()
    for name, target in (("one", "two"), ("two", "one"), ("gone", "nowhere")):
        os.symlink(target, tmp_path / name)
    listing = list_pictures(tmp_path, required=True)
    assert listing is not None
    assert listing.files == {"a.jpg", "caf\u00e9.jpg", "one", "two", "gone"}
    assert listing.misnamed == {r"caf\xe9.jpg"}
    assert listing.circular == {"one", "two"}


def test_the_tables_have_their_columns_and_captions_count_from_zero(tmp_path: Path) -> None:
    texts = [Caption("a.jpg", "7", "x"), Caption("a.jpg", "9", "y"), Caption("b.jpg", "1", "z"), Caption("c", "1", "w")]
    pictures = [Image("b.jpg", "b.jpg", "dev"), Image("a.jpg", "a.jpg", "train")]
    corpus = clean(pictures, texts, Listing(Path(), frozenset({"a.jpg"})), require_pictures=False)
    write_tables(tmp_path, corpus, "data/pictures")
    assert pq.read_table(tmp_path / "images.parquet").to_pylist() == [
        {"image_id": "a.jpg", "path": "data/pictures/a.jpg", "split": "train", "position": 1},
        {"image_id": "b.jpg", "path": None, "split": "dev", "position": 0},
    ]
    assert pq.read_table(tmp_path / "captions.parquet").to_pylist() == [
        {"image_id": "a.jpg", "caption": 0, "split": "train", "text": "x"},
        {"image_id": "a.jpg", "caption": 1, "split": "train", "text": "y"},
        {"image_id": "b.jpg", "caption": 0, "split": "dev", "text": "z"},
    ]
    assert str(pq.read_schema(tmp_path / "captions.parquet").field("caption").type) == "int32"
    assert pq.read_table(tmp_path / "dropped.parquet").to_pylist() == [
        {"kind": "caption", "item": "c#1", "reason": "unknown picture", "detail": "w"}
    ]


def test_pictures_must_lie_in_the_folder_of_the_corpus() -> None:
    CorpusSettings(path="data/raw/mine", pictures="data/raw/mine/pictures")
    CorpusSettings(format="sample", path="data/raw/sample/scenes.yaml", pictures="data/corpus/pictures")
    for pictures in ("data/raw/minen", "elsewhere", "data/raw/mine/../other"):
        with pytest.raises(ValidationError, match="must lie in path"):
            CorpusSettings(path="data/raw/mine", pictures=pictures)


NAMED = [Image("caf\u00e9.png", "caf\u00e9.png", "train"), Image("a.png", "a.png", "train")]
SPOKEN = [Caption("caf\u00e9.png", "0", "A cup."), Caption("a.png", "0", "A box.")]


def test_a_file_in_another_unicode_form_is_the_picture(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    listing = Listing(Path("pictures"), frozenset({"cafe\u0301.png", "a.png"}))
    corpus = clean(NAMED, SPOKEN, listing, require_pictures=True)
    assert [(one.image_id, one.path) for one in corpus.images] == [
        ("a.png", "a.png"),
        ("caf\u00e9.png", "cafe\u0301.png"),
    ]
    assert corpus.dropped == []
    assert "1 picture found by the name in another Unicode form" in caplog.text


def test_a_picture_in_two_unicode_forms_is_an_error() -> None:
    images = [Image("caf\u00e9.png", "caf\u00e9.png", "train"), Image("cafe\u0301.png", "cafe\u0301.png", "test")]
    with pytest.raises(CorpusError, match="stands twice, with the spelling "):
        clean(images, SPOKEN, None, require_pictures=False)


@pytest.mark.parametrize(
    ("file", "forms"),
    [("A.png", "capitals"), ("images/a.png", "folder"), ("a .png", "blanks"), ("a.jpg", "ending")],
)
def test_a_file_that_differs_in_form_only_stops_the_stage(file: str, forms: str) -> None:
    listing = Listing(Path("pictures"), frozenset({"caf\u00e9.png", file}))
    message = rf"pictures: 1 name of the corpus .*'a\.png' is there as '{file}', which differs in: {forms}\. Correct"
    with pytest.raises(CorpusError, match=message):
        clean(NAMED, SPOKEN, listing, require_pictures=True)


def numbered(count: int) -> tuple[list[Image], list[Caption]]:
    names = [f"{number}.png" for number in range(1, count + 1)]
    return [Image(name, name, "train") for name in names], [Caption(name, "0", "A box.") for name in names]


@pytest.mark.parametrize(
    ("files", "dropped"),
    [
        ({"1.png", "thumbs/1.png", "thumbs/2.png"}, 1),
        ({"1.png", "1.webp", "2.webp"}, 1),
        ({"1.png", "old/2.png"}, 3),
    ],
)
def test_a_copy_in_a_folder_or_with_an_ending_is_no_other_spelling(
    files: set[str], dropped: int, caplog: pytest.LogCaptureFixture
) -> None:
    images, captions = numbered(dropped + 1)
    corpus = clean(images, captions, Listing(Path("pictures"), frozenset(files)), require_pictures=True)
    assert [row.item for row in corpus.dropped if row.reason == "no picture file"] == [
        image.image_id for image in images[1:]
    ]
    assert f"corpus: of 1 of {dropped} missing names a similar one is there, the first: '2.png' is there" in caplog.text


@pytest.mark.parametrize(
    ("files", "remark"),
    [
        ({"thumbs/1.png", "small/2.png"}, "2 names .*differs in: folder"),
        ({"1.png", "old/2.png", "old/3.png", "old/4.png"}, "3 names .*differs in: folder"),
        ({"1.png", "thumbs/1.png", "thumbs/2.png", "3 .png"}, "1 name .*'3 .png', which differs in: blanks"),
    ],
)
def test_other_spellings_of_most_missing_names_stop_the_stage(files: set[str], remark: str) -> None:
    images, captions = numbered(4)
    with pytest.raises(CorpusError, match=remark):
        clean(images, captions, Listing(Path("pictures"), frozenset(files)), require_pictures=True)


def test_a_file_that_another_picture_has_is_no_other_spelling(caplog: pytest.LogCaptureFixture) -> None:
    images = [*NAMED, Image("A.png", "A.png", "train")]
    listing = Listing(Path("pictures"), frozenset({"caf\u00e9.png", "A.png", "a.txt"}))
    corpus = clean(images, [*SPOKEN, Caption("A.png", "0", "A bag.")], listing, require_pictures=True)
    assert [row.item for row in corpus.dropped] == ["a.png"]
    report("corpus", corpus)
    assert [row.levelname for row in caplog.records if "no picture file: a.png" in row.message] == ["WARNING"]
