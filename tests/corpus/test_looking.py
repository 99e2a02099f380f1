"""What a look at a folder says of the corpus in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.params import overlay, recipes, writing
from pipeline.params.own import of_corpus
from sightword.corpus.looking import look
from sightword.errors import CorpusError, ParamsError

LINES = "".join(f"{number}.jpg,Собака номер {number} .\n" for number in range(60))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    found = Path("raw/own")
    (found / "Images").mkdir(parents=True)
    for number in range(60):
        (found / f"Images/{number}.jpg").write_bytes(bytes([number]))
    return found


def test_a_table_without_splits_gives_shares_its_folder_of_pictures_and_its_script(folder: Path) -> None:
    (folder / "captions.txt").write_text(f"image,caption\n{LINES}")
    found = look(folder)
    drawn = {"draw_dev": 0.1, "draw_test": 0.1}
    assert found.values == {"path": "raw/own", "pictures": "raw/own/Images", "format": "table", **drawn}
    assert found.words[0].startswith("60 pictures (")
    assert found.words[0].endswith("60 captions.")
    assert "of 60 pictures drawn by a hash" in found.words[1]
    assert found.words[2] == "Letters: Cyrillic 100 %."
    (folder / "more.csv").write_text("image,caption,split\n0.jpg,A .,train\n1.jpg,B .,test\n")
    assert look(folder / "more.csv").values == {
        "path": "raw/own", "pictures": "raw/own/Images", "format": "table", "file": "more.csv",
    }  # fmt: skip


def test_other_formats_are_known_by_the_names_of_their_files(folder: Path) -> None:
    image = {"filename": "1.jpg", "split": "train", "sentences": [{"raw": "A dog ."}]}
    (folder / "dataset_own.json").write_text(json.dumps({"images": [image]}))
    assert look(folder).values["format"] == "karpathy"


def test_a_folder_without_captions_is_refused_with_what_it_has(folder: Path) -> None:
    with pytest.raises(
        CorpusError, match=r"raw/own: holds no captions that are known \(it has Images\); expected tables"
    ):
        look(folder)
    with pytest.raises(CorpusError, match=r"nowhere: does not exist"):
        look(Path("nowhere"))


def test_the_recipe_of_a_corpus_has_its_section_and_what_was_found(
    folder: Path, tmp_path: Path, repository: Path
) -> None:
    (folder / "captions.txt").write_text(f"image,caption\n{LINES}")
    base = recipes.find("own", repository)
    recipe, words = of_corpus(base, folder, tmp_path, tmp_path / "own.yaml")
    text = writing.text(recipe, repository)
    assert all(f"# {line}\n" in text for line in words)
    corpus = overlay.resolve(recipe, repository).values["corpus"]
    assert {key: corpus[key] for key in look(folder).values} == look(folder).values
    with pytest.raises(ParamsError, match=r"is not in the project .*; expected a folder or a file below it"):
        of_corpus(base, tmp_path.parent, tmp_path, tmp_path / "own.yaml")
