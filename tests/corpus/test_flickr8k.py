"""The text files of Flickr8k and Multi30k."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from sightword.captions.table import read_texts
from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus, write_tables
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


def test_captions_are_ordered_by_number(tmp_path: Path) -> None:
    write(tmp_path)
    corpus = read(tmp_path)
    assert [(image.image_id, image.split) for image in corpus.images] == [
        ("a.jpg", "train"),
        ("b.jpg", "dev"),
        ("c.jpg.1", "test"),
    ]
    assert [caption.text for caption in corpus.captions][:2] == ["First of a .", "Second of a ."]
    assert corpus.dropped == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"token": ""}, r"Flickr8k\.token\.txt: is empty; expected captions, in lines"),
        ({"token": "a.jpg#0\tA .\na.jpg#1 A dog\n"}, r"token\.txt, line 2: .*no tab.*expected name\.jpg#0<TAB>caption"),
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
def test_wrong_file_is_named_with_its_line(tmp_path: Path, files: dict[str, str], message: str) -> None:
    write(tmp_path, **files)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path)


def test_official_lists_give_all_of_flickr8k(real_data: Path) -> None:
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
    assert "5,391 of 6,000 training pictures" in page


def test_list_of_the_part_gives_the_photographs_at_hand(real_data: Path) -> None:
    values = {"path": str(real_data / "flickr8k"), "pictures": str(real_data / "flickr8k/images")}
    whole = read_corpus(CorpusSettings(only="flickr8k-part", require_pictures=False, **values))
    there = read(real_data / "flickr8k", require=True)
    assert whole.counts() == {"train": 200, "dev": 50, "test": 50}
    assert whole.images == there.images
    assert whole.captions == there.captions


NAMES = {"train": ["1.jpg", "2.jpg"], "val": ["3.jpg"], "test_2016": ["4.jpg"], "test_2016_flickr": ["4.jpg"]}


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """Both tasks; a caption says its picture, language and number."""
    for part, names in NAMES.items():
        for task, ends in ((1, [""]), (2, [f".{n}" for n in range(1, 6)])):
            if (part, task) in (("test_2016", 1), ("test_2016_flickr", 2)):
                continue
            folder = tmp_path / f"task{task}"
            folder.mkdir(exist_ok=True)
            (folder / (f"{part}.txt" if task == 1 else f"{part}_images.txt")).write_text("\n".join(names) + "\n")
            for language in ("en", "de", "fr", "cs") if task == 1 else ("en", "de"):
                for end in ends:
                    texts = "".join(f"{name} {language}{end}\n" for name in names)
                    (folder / f"{part}{end}.{language}.gz").write_bytes(gzip.compress(texts.encode()))
    (tmp_path / "flickr8k").mkdir()
    for split, name in (("train", "4_a.jpg"), ("dev", "1_b.jpg"), ("test", "9_c.jpg")):
        (tmp_path / f"flickr8k/Flickr_8k.{split}Images.txt").write_text(f"{name}\n")
    return tmp_path


def read_multi30k(folder: Path, **more: object) -> Corpus:
    about = {"path": str(folder), "pictures": str(folder / "images"), "require_pictures": False}
    return read_corpus(CorpusSettings(format="multi30k", **about, **more))


def test_lines_belong_to_the_names_of_their_part(published):
    corpus = read_multi30k(published, languages=["de", "en"])
    splits = {"1.jpg": "train", "2.jpg": "train", "3.jpg": "dev", "4.jpg": "test"}
    assert {image.image_id: image.split for image in corpus.images} == splits
    assert len(corpus.captions) == 4 * 10
    assert [one.text for one in corpus.captions[:6]] == [*(f"1.jpg de.{n}" for n in range(1, 6)), "1.jpg en.1"]
    assert {one.text.split()[0] == one.image_id for one in corpus.captions} == {True}


def test_flickr8ks_split_has_its_names_alone(published):
    corpus = read_multi30k(published, task=1, languages=["cs"], split="flickr8k")
    assert [(image.image_id, image.split) for image in corpus.images] == [("1_b.jpg", "dev"), ("4_a.jpg", "train")]
    assert [one.text for one in corpus.captions] == ["1.jpg cs", "4.jpg cs"]
    assert [(one.item, one.reason) for one in corpus.dropped] == [("9_c.jpg", "no captions")]


@pytest.mark.parametrize(
    ("training_captions", "found"),
    [("disjoint", {"1.jpg": "de", "2.jpg": "en"}), ("en", {"1.jpg": "en", "2.jpg": "en"})],
)
def test_training_captions_are_of_one_language_a_picture(published, training_captions, found):
    corpus = read_multi30k(published, languages=["de", "en"], training_captions=training_captions)
    codes = {}
    for one in corpus.captions:
        codes.setdefault(one.image_id, []).append(one.language)
    training = {name: [code] * 5 for name, code in found.items()}
    assert codes == {**training, **dict.fromkeys(["3.jpg", "4.jpg"], ["de"] * 5 + ["en"] * 5)}


def test_languages_stand_in_the_tables_of_captions(published, tmp_path):
    corpus = read_multi30k(published, task=1, languages=["en", "fr"])
    write_tables(tmp_path, corpus, "pictures")
    table = read_texts(tmp_path / "captions.parquet")
    assert [(text.split()[1], language) for text, language in zip(table.texts, table.languages, strict=True)] == [
        (code, code) for _ in range(4) for code in ("en", "fr")
    ]


@pytest.mark.parametrize(
    ("task", "file", "content", "said"),
    [
        (1, "task1/val.de.gz", b"a\nb\n", r"val\.de\.gz: has 2 lines for the 1 names in val\.txt"),
        (2, "task2/val_images.txt", None, "no list of the part val; expected the names of its pictures, task2/val_im"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(published, task, file, content, said):
    path = published / file
    path.unlink()
    if content:
        path.write_bytes(gzip.compress(content))
    with pytest.raises(CorpusError, match=said):
        read_multi30k(published, task=task, languages=["de"])


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"languages": ["fr"]}, "task 2 has no captions in fr"),
        ({"format": "flickr8k", "only": "flickr8k-par"}, "no list 'flickr8k-par'; expected one of flickr8k-part, "),
    ],
)
def test_unknown_languages_and_lists_are_refused(keys, said):
    with pytest.raises(ValidationError, match=said):
        CorpusSettings(**{"format": "multi30k", "path": "data", "pictures": "data", **keys})
