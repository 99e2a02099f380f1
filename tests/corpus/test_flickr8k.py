"""Flickr8k's own text files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError

CAPTIONS = """a.jpg#1\tSecond of a .
a.jpg#0\tFirst of a .
b.jpg#0\tA dog .
c.jpg.1#0\tpeople waiting for the subway
c.jpg.1#1\tSome people .
"""


def write(folder: Path, **files: str) -> None:
    texts = {"token": CAPTIONS, "train": "a.jpg\n", "dev": "b.jpg\n", "test": "c.jpg.1\n"} | files
    names = {"token": "Flickr8k.token.txt"} | {s: f"Flickr_8k.{s}Images.txt" for s in ("train", "dev", "test")}
    for key, text in texts.items():
        (folder / names[key]).write_bytes(text.encode())


def read(folder: Path, *, require: bool = False) -> Corpus:
    return read_corpus(
        CorpusSettings(format="flickr8k", path=str(folder), pictures=str(folder / "images"), require_pictures=require)
    )


def test_captions_are_ordered_by_number_and_names_may_have_odd_endings(tmp_path: Path) -> None:
    write(tmp_path)
    corpus = read(tmp_path)
    assert [(image.image_id, image.split) for image in corpus.images] == [
        ("a.jpg", "train"),
        ("b.jpg", "dev"),
        ("c.jpg.1", "test"),
    ]
    assert [caption.text for caption in corpus.captions][:2] == ["First of a .", "Second of a ."]
    assert corpus.dropped == []


def test_names_without_a_split_captions_or_a_file_are_dropped_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path, test="b2.jpg\n", train="a.jpg\nd.jpg\n")
    (tmp_path / "images").mkdir()
    for name in ("a.jpg", "d.jpg", "stray.PNG", "notes.txt"):
        (tmp_path / "images" / name).touch()
    corpus = read(tmp_path, require=True)
    assert [image.image_id for image in corpus.images] == ["a.jpg"]
    assert {(row.kind, row.item, row.reason) for row in corpus.dropped} == {
        ("picture", "b.jpg", "no picture file"),
        ("picture", "b2.jpg", "no picture file"),
        ("picture", "c.jpg.1", "in no split"),
        ("picture", "d.jpg", "no captions"),
        ("picture", "stray.PNG", "no captions"),
    }


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"token": ""}, r"Flickr8k\.token\.txt: is empty; expected captions, in lines"),
        ({"token": "a.jpg#0\tA .\na.jpg#1 A dog\n"}, r"token\.txt, line 2: .*no tab.*expected name\.jpg#0<TAB>caption"),
        ({"token": "a.jpg\tA .\n"}, "line 1: .*no caption number"),
        ({"token": "/etc/a.jpg#0\tA .\n"}, "leaves the folder"),
        ({"dev": "\n"}, "devImages.txt: is empty; expected names"),
        (
            {"dev": "a.jpg\n"},
            r"devImages.txt, line 1: .* 'a.jpg' stands twice, with the split 'train' .*, line 1\) and the split 'dev'",
        ),
        (
            {"token": CAPTIONS + "a.jpg#0\tSomething else\n"},
            r"the caption \('a.jpg', '0'\) stands twice, with the text ",
        ),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, files: dict[str, str], message: str) -> None:
    write(tmp_path, **files)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path)


def test_a_missing_folder_list_or_folder_of_pictures_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere: does not exist"):
        read(tmp_path / "nowhere")
    write(tmp_path)
    with pytest.raises(CorpusError, match="images: the folder of pictures does not exist"):
        read(tmp_path, require=True)
    (tmp_path / "Flickr_8k.testImages.txt").unlink()
    with pytest.raises(CorpusError, match=r"testImages\.txt: does not exist"):
        read(tmp_path)


def test_the_official_lists_give_all_of_flickr8k(real_data: Path) -> None:
    corpus = read(real_data / "flickr8k")
    assert corpus.counts() == {"train": 6000, "dev": 1000, "test": 1000}
    assert len(corpus.captions) == 40_000
    assert sum(image.path is not None for image in corpus.images) == 300
    assert len(corpus.dropped) == 92
    assert {row.reason for row in corpus.dropped} == {"in no split"}
    assert "2258277193_586949ec62.jpg.1" in {row.item for row in corpus.dropped}


def test_captions_of_flickr8k_are_in_alphabetical_order(real_data: Path, repository: Path) -> None:
    """The counts of docs/data.md; five captions in a random order are sorted once in 120 times."""

    def sorted_share(captions: list[list[str]]) -> tuple[int, int]:
        lower = [[text.lower() for text in own] for own in captions]
        return sum(own == sorted(own) for own in lower), len(lower)

    captions: dict[str, list[str]] = {}
    for line in (real_data / "flickr8k/Flickr8k.token.txt").read_text("utf-8").splitlines():
        name, text = line.split("\t")
        captions.setdefault(name.partition("#")[0], []).append(text)
    training = (real_data / "flickr8k/Flickr_8k.trainImages.txt").read_text("utf-8").split()
    assert sorted_share([captions[name] for name in training]) == (5391, 6000)
    excerpt = json.loads((real_data / "flickr8k/karpathy_excerpt.json").read_text("utf-8"))
    raw = [[sentence["raw"] for sentence in image["sentences"]] for image in excerpt["images"]]
    assert sorted_share(raw) == (648, 762)
    page = (repository / "docs/data.md").read_text("utf-8")
    assert "5,391 of 6,000 training pictures (89.8 %" in page
    assert "648 of 762" in page


def test_the_list_of_the_part_draws_the_same_photographs_from_the_whole_corpus(real_data: Path) -> None:
    values = {"path": str(real_data / "flickr8k"), "pictures": str(real_data / "flickr8k/images")}
    whole = read_corpus(CorpusSettings(only="flickr8k-part", require_pictures=False, **values))
    there = read(real_data / "flickr8k", require=True)
    assert whole.counts() == {"train": 200, "dev": 50, "test": 50}
    assert whole.images == there.images
    assert whole.captions == there.captions


def test_pictures_outside_of_the_list_are_in_no_split(tmp_path: Path) -> None:
    listed = "1000268201_693b08cb0e.jpg"
    write(tmp_path, train=f"a.jpg\n{listed}\n", token=CAPTIONS + f"{listed}#0\tTwo dogs .\n")
    values = {"path": str(tmp_path), "pictures": str(tmp_path / "images"), "require_pictures": False}
    corpus = read_corpus(CorpusSettings(only="flickr8k-part", **values))
    assert [(image.image_id, image.split) for image in corpus.images] == [(listed, "train")]
    assert ("picture", "a.jpg", "in no split") in {(row.kind, row.item, row.reason) for row in corpus.dropped}


def test_an_unknown_list_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no list 'flickr8k-par'; expected one of flickr8k-part, "):
        CorpusSettings(only="flickr8k-par")


def test_names_of_lists_and_captions_may_be_in_two_unicode_forms(tmp_path: Path) -> None:
    write(tmp_path, token="caf\u00e9.jpg#0\tA cup .\nb.jpg#0\tB .\nc.jpg.1#0\tC .\n", train="cafe\u0301.jpg\n")
    corpus = read(tmp_path)
    assert [(row.image_id, row.text) for row in corpus.captions][-1] == ("cafe\u0301.jpg", "A cup .")
    assert corpus.dropped == []


def test_a_listed_name_that_captions_spell_differently_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, train="A.JPG\n")
    with pytest.raises(CorpusError, match=r"'a\.jpg' is there as 'A\.JPG', which differs in: capitals"):
        read(tmp_path)
