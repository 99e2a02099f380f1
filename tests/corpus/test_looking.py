"""What a look at a folder says of the corpus in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.params import overlay, recipes, writing
from pipeline.params.writing import of_corpus
from sightword.corpus.looking import look
from sightword.errors import CorpusError, ParamsError
from sightword.io.files import write_table

LINES = "".join(f"{number}.jpg,Собака номер {number} .\n" for number in range(60))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    found = Path("raw/own")
    (found / "Images").mkdir(parents=True)
    for number in range(60):
        (found / f"Images/{number}.jpg").write_bytes(bytes([number]))
    return found


def test_table_without_splits_gives_shares_and_pictures(folder: Path) -> None:
    (folder / "captions.txt").write_text(f"image,caption\n{LINES}")
    found = look(folder)
    drawn = {"draw_dev": 0.1, "draw_test": 0.1}
    assert found.values == {"path": "raw/own", "pictures": "raw/own/Images", "format": "table", **drawn}
    assert found.words[0].startswith("60 pictures (")
    assert found.words[0].endswith("60 captions.")
    assert found.words[1].endswith(" test (10 % asked for) of 60 pictures drawn by a hash of their ids.")
    assert found.words[2] == "Dev and test have few pictures: recall among fewer than 100 is high by chance."
    (folder / "more.csv").write_text("image,caption,split\n0.jpg,A .,train\n1.jpg,B .,test\n2.jpg,C .,dev\n")
    assert look(folder / "more.csv").values == {
        "path": "raw/own", "pictures": "raw/own/Images", "format": "table", "file": "more.csv",
    }  # fmt: skip


def test_missing_dev_is_drawn_from_training(folder: Path) -> None:
    rows = [f"{number}.jpg,Caption {number} .,{'train' if number < 48 else 'test'}\n" for number in range(60)]
    (folder / "captions.csv").write_text(f"image,caption,split\n{''.join(rows)}")
    found = look(folder)
    assert (found.values["draw_dev"], " 12 test)" in found.words[0], ", 0 dev" in found.words[0]) == (0.1, True, False)


def test_coco_files_are_taken_by_their_splits(folder: Path) -> None:
    for number, name in enumerate(["train", "val", "test"]):
        picture, caption = {"id": number, "file_name": f"{number}.jpg"}, {"image_id": number, "caption": "A ."}
        text = json.dumps({"images": [picture], "annotations": [{"id": number, **caption}]})
        (place := folder / "annotations").mkdir(exist_ok=True)
        (place / f"captions_{name}.json").write_text(text)
    found = look(folder)
    assert found.values["coco_test"] == ["captions_test.json"]
    assert found.words[0] == "3 pictures (1 train, 1 dev, 1 test), 3 captions."
    (place / "captions_trainval.json").write_text(text)
    with pytest.raises(CorpusError, match=r"the name of captions_trainval.json has no split"):
        look(folder)


def test_pictures_of_a_bucket_are_listed(folder: Path) -> None:
    Path("bucket").mkdir()
    Path("bucket/captions.csv").write_text(f"image,caption\n{LINES}")
    lines = "".join(f"{number}.jpg,https://pictures.example/{number}.jpg,9,\n" for number in range(60))
    Path("bucket/pictures.csv").write_text(f"name,address,size,version\n{lines}")
    found = look(Path("bucket"))
    assert found.values["pictures"] == "bucket/pictures.csv"
    assert not any("No picture has a file" in line for line in found.words)


def test_pictures_are_found_by_link_in_a_tar_or_absent(folder: Path) -> None:
    found = {}
    for name in ("linked", "tar", "none"):
        (place := Path(name)).mkdir()
        (place / "captions.csv").write_text(f"image,caption\n{LINES}")
        if name == "linked":
            (place / "photos").symlink_to(folder.absolute() / "Images")
        if name == "tar":
            shutil.make_archive("tar/photos", "tar", folder / "Images")
        values = look(place).values
        found[name] = values["pictures"], values.get("require_pictures", True)
    assert look(Path("none")).words[1] == "No picture has a file here: its features must come precomputed."
    assert found == {
        "linked": ("linked/photos", True), "tar": ("tar/photos.tar", True), "none": ("none/images", False),
    }  # fmt: skip


def test_pictures_are_found_by_paths_from_the_table(folder: Path) -> None:
    table, lines = folder / "metadata.csv", LINES.splitlines()
    table.write_text("\n".join(["file_name,text", *(f"Images/{line}" for line in lines)]))
    found = look(folder)
    assert (found.values["pictures"], found.words[0][:13]) == ("raw/own", "60 pictures (")
    table.write_text("\n".join(["file_name,text", *(f"{folder.absolute()}/Images/{line}" for line in lines)]))
    with pytest.raises(CorpusError, match=r"60 damaged, such as '/.* \(an absolute path: '/"):
        look(folder)


def test_one_shard_is_meant_alone(folder: Path) -> None:
    for number in range(60):
        (folder / f"Images/{number}.txt").write_text(f"Caption {number}")
    shutil.make_archive("one", "tar", folder / "Images")
    shutil.copy("one.tar", "other.tar")
    found = look(Path("one.tar"))
    assert found.values["pictures"] == "one.tar"
    assert found.words[0].startswith("60 pictures (")


def test_shards_with_tables_have_captions_in_json(folder: Path) -> None:
    for number in range(60):
        (folder / f"Images/{number}.json").write_text(json.dumps({"url": "a", "text": f"Caption {number}"}))
    shutil.make_archive("own/00000", "tar", folder / "Images")
    write_table("own/00000.parquet", pa.table({"key": ["0"], "caption": ["Caption 0"]}))
    Path("own/00000_stats.json").write_text("{}")
    values = look(Path("own")).values
    assert (values["format"], values["pictures"], values["caption"]) == ("shards", "own", "json:text")


def test_named_columns_are_read(folder: Path) -> None:
    bytes_of = [{"bytes": bytes([number]), "path": f"{number}.jpg"} for number in range(60)]
    captions = [f"Caption {number}" for number in range(60)]
    Path("bytes").mkdir()
    write_table("bytes/all.parquet", pa.table({"scan": bytes_of, "alt": captions, "label": captions}))
    with pytest.raises(CorpusError, match=r"has no column caption .*such as \{caption: alt\}"):
        look(Path("bytes"))
    values = look(Path("bytes"), {"caption": "alt"}).values
    assert (values["columns"], values["pictures"]) == ({"caption": "alt"}, "bytes")
    paths = [one["path"] for one in bytes_of]
    write_table("bytes/all.parquet", pa.table({"image": paths, "scan": bytes_of, "caption": captions}))
    with pytest.raises(CorpusError, match=r"has texts in image and bytes in scan"):
        look(Path("bytes"))
    assert look(Path("bytes"), {"image": "scan"}).values["pictures"] == "bytes"
    shutil.make_archive("shard/one", "tar", folder / "Images")
    with pytest.raises(CorpusError, match=r"shard: has the format shards, whose columns have no other names"):
        look(Path("shard"), {"caption": "alt"})


def test_folder_without_captions_is_refused(folder: Path) -> None:
    with pytest.raises(
        CorpusError, match=r"raw/own: holds no captions that are known \(it has Images\); expected tables"
    ):
        look(folder)
    with pytest.raises(CorpusError, match=r"nowhere: does not exist"):
        look(Path("nowhere"))


def test_recipe_of_a_corpus_has_its_section_and_words(folder: Path, tmp_path: Path, repository: Path) -> None:
    (folder / "captions.txt").write_text(f"image,caption\n{LINES}")
    (tmp_path / "dvc.yaml").symlink_to(repository / "dvc.yaml")
    base = recipes.find("own", repository)
    recipe, words = of_corpus(base, folder, tmp_path, tmp_path / "own.yaml")
    text = writing.text(recipe, repository)
    assert all(f"# {line}\n" in text for line in words)
    corpus = overlay.resolve(recipe, repository).values["corpus"]
    assert {key: corpus[key] for key in look(folder).values} == look(folder).values
    with pytest.raises(
        ParamsError, match=r"(?s)flickr8k-part: does not go with a corpus of the format table: .* such as own"
    ):
        of_corpus(recipes.find("flickr8k-part", repository), folder, tmp_path, tmp_path / "part.yaml")
    (folder / "more.csv").write_text((folder / "captions.txt").read_text())
    with pytest.raises(CorpusError, match=r"Here --from FILE sets corpus.file"):
        of_corpus(base, folder, tmp_path, tmp_path / "own.yaml")
    with pytest.raises(ParamsError, match=r"is not in the project .*; expected a folder or a file below it"):
        of_corpus(base, tmp_path.parent, tmp_path, tmp_path / "own.yaml")
