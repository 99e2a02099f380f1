"""Multi30k's files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from sightword.captions.table import read_captions, read_texts, write_captions
from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus
from sightword.corpus.settings import CorpusSettings
from sightword.corpus.tables import write_tables
from sightword.errors import CorpusError

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


def read(folder: Path, **more: object) -> Corpus:
    about = {"path": str(folder), "pictures": str(folder / "images"), "require_pictures": False}
    return read_corpus(CorpusSettings(format="multi30k", **about, **more))


def test_lines_belong_to_the_names_of_their_part(published):
    corpus = read(published, languages=["de", "en"])
    splits = {"1.jpg": "train", "2.jpg": "train", "3.jpg": "dev", "4.jpg": "test"}
    assert {image.image_id: image.split for image in corpus.images} == splits
    assert len(corpus.captions) == 4 * 10
    assert [one.text for one in corpus.captions[:6]] == [*(f"1.jpg de.{n}" for n in range(1, 6)), "1.jpg en.1"]
    assert {one.text.split()[0] == one.image_id for one in corpus.captions} == {True}


def test_flickr8ks_split_has_its_names_and_leaves_the_other_pictures_out(published):
    corpus = read(published, task=1, languages=["cs"], split="flickr8k")
    assert [(image.image_id, image.split) for image in corpus.images] == [("1_b.jpg", "dev"), ("4_a.jpg", "train")]
    assert [one.text for one in corpus.captions] == ["1.jpg cs", "4.jpg cs"]
    assert [(one.item, one.reason) for one in corpus.dropped] == [("9_c.jpg", "no captions")]


@pytest.mark.parametrize(
    ("training_captions", "found"),
    [("disjoint", {"1.jpg": "de", "2.jpg": "en"}), ("en", {"1.jpg": "en", "2.jpg": "en"})],
)
def test_training_pictures_have_captions_of_one_language_and_the_others_of_all(published, training_captions, found):
    corpus = read(published, languages=["de", "en"], training_captions=training_captions)
    codes = {}
    for one in corpus.captions:
        codes.setdefault(one.image_id, []).append(one.language)
    training = {name: [code] * 5 for name, code in found.items()}
    assert codes == {**training, **dict.fromkeys(["3.jpg", "4.jpg"], ["de"] * 5 + ["en"] * 5)}


def test_training_captions_of_a_language_that_is_not_read_are_refused():
    with pytest.raises(ValidationError, match="training_captions is cs, which languages lacks"):
        CorpusSettings(format="multi30k", path="data", pictures="data", training_captions="cs")


def test_languages_stand_in_the_tables_of_captions(published, tmp_path):
    corpus = read(published, task=1, languages=["en", "fr"])
    write_tables(tmp_path, corpus, "pictures")
    table = read_texts(tmp_path / "captions.parquet")
    assert [(text.split()[1], language) for text, language in zip(table.texts, table.languages, strict=True)] == [
        (code, code) for _ in range(4) for code in ("en", "fr")
    ]
    table.ids.extend([2] for _ in table.texts)
    write_captions(tmp_path / "with-ids.parquet", table)
    again = read_captions(tmp_path / "with-ids.parquet")
    assert again.languages == table.languages
    assert again.split("test").languages == ["en", "fr"]
    assert "language" in pq.read_schema(tmp_path / "with-ids.parquet").names


@pytest.mark.parametrize(
    ("task", "file", "content", "said"),
    [
        (1, "task1/val.de.gz", b"a\nb\n", r"val\.de\.gz: has 2 lines for the 1 names in val\.txt"),
        (2, "task2/val.3.de.gz", None, r"val\.3\.de\.gz: does not exist"),
        (
            2,
            "task2/val_images.txt",
            None,
            "no list of the part val; expected the names of its pictures, task2/val_images",
        ),
    ],
)
def test_files_that_do_not_fit_together_are_refused(published, task, file, content, said):
    path = published / file
    path.unlink()
    if content:
        path.write_bytes(gzip.compress(content))
    with pytest.raises(CorpusError, match=said):
        read(published, task=task, languages=["de"])


@pytest.mark.parametrize(
    ("languages", "said"),
    [(["fr"], "task 2 has no captions in fr"), (["en", "en"], "named twice"), (["xx"], "'en', 'de', 'fr' or 'cs'")],
)
def test_languages_that_the_task_lacks_are_refused(languages, said):
    with pytest.raises(ValidationError, match=said):
        CorpusSettings(format="multi30k", path="data", pictures="data", languages=languages)
