"""`sightword search` as a person calls it."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file
from search_world import BACKBONE, EVIL, SEED
from sums import renew

from pipeline.cli import main
from sightword.captions.table import write_captions
from sightword.errors import SearchError
from sightword.features.networks import find_backbone
from sightword.features.tables.table import Origin, write_features
from sightword.features.weights import Weights
from sightword.io.files import read_json, sha256_file, write_json
from sightword.search.opening import Table, open_search
from sightword.search.query import shown

pytestmark = pytest.mark.usefixtures("here")


def search(*arguments: str) -> int:
    return main(["search", "models/encoder", *arguments])


def test_a_sentence_prints_the_best_ten_with_scores_and_where_the_query_stands_is_free(searcher, capsys):
    assert search("--top", "10", "a red circle") == 0
    lines = capsys.readouterr().out.splitlines()
    expected = searcher.pictures("a red circle", 10).hits
    assert len(lines) == 10
    for place, (line, hit) in enumerate(zip(lines, expected, strict=True), start=1):
        assert line.split()[:2] == [str(place), f"{hit.score:.4f}"]
        assert f"  {hit.picture}" in line
    assert search("a red circle", "--features", "data/features/features.h5") == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_json_is_a_line_with_scores_in_full(searcher, capsys):
    assert search("--json", "a red çircle") == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    hits = searcher.pictures("a red çircle", 10).hits
    assert [(picture["id"], picture["score"]) for picture in found["pictures"]] == [
        (hit.picture, hit.score) for hit in hits
    ]
    assert (found["unknown"], found["similarity"]) == (["ç"], "dot")
    assert found["weak"] == searcher.pictures("a red çircle", 10).weak
    assert "random weights: for demonstration" in captured.err


def test_a_picture_prints_captions_its_own_marked(world, searcher, tmp_path, capsys):
    assert search("--picture", "scene-004.png", "--top", "60") == 0
    by_id = capsys.readouterr().out
    own = searcher.catalogue.captions_of["scene-004.png"]
    marked = [line for line in by_id.splitlines() if line.endswith("(its own)")]
    assert sorted(re.sub(r"^ *\d+ +-?[\d.]+  |  \(its own\)$", "", line) for line in marked) == sorted(map(shown, own))
    shutil.copy(world.files / "scene-004.png", tmp_path / "copy.png")
    assert search("--picture", str(tmp_path / "copy.png"), "--top", "60") == 0
    assert capsys.readouterr().out == by_id
    assert search("--picture", EVIL, "--split", "dev") == 1
    assert f"no picture has the id {EVIL!r}" in capsys.readouterr().err


def test_weights_of_a_file_are_found_in_the_project(world, tmp_path, monkeypatch, capsys):
    """Trained weights: no banner, and a new picture needs no --weights."""
    folder = tmp_path / "data/raw/features"
    folder.mkdir(parents=True)
    save_file(Weights(find_backbone(BACKBONE), "random", seed=SEED).load().state_dict(), folder / "net.safetensors")
    table = world.table()
    known = {name: str(table.attributes.get(name, "")) for name in Origin.__dataclass_fields__}
    trained = Origin(
        **known | {"weights": "net.safetensors", "weights_sha256": sha256_file(folder / "net.safetensors")}
    )
    rows = [(np.arange(len(table.image_ids)), table.features)]
    write_features(tmp_path / "f.h5", table.image_ids, table.sha256, table.features.shape[1], rows, trained)
    Image.new("RGB", (90, 80), "red").save(tmp_path / "new.png")
    monkeypatch.chdir(tmp_path)
    encoder, captions = str(world.folder / "models/encoder"), str(world.folder / "data/captions/captions.parquet")
    command = ["search", encoder, "--features", "f.h5", "--captions", captions]
    assert main([*command, "a red circle"]) == 0
    assert "are of a network with random weights" not in capsys.readouterr().err
    assert main([*command, "--picture", "new.png"]) == 0
    known_to = world.encoder()
    known_to.notes["features"] |= {name: getattr(trained, name) for name in ("weights", "weights_sha256")}
    known_to.save("encoder")
    of_folder = ["search", "encoder", "--collection", ".", "a red circle"]
    capsys.readouterr()
    assert main(of_folder) == 0
    assert "new.png" in capsys.readouterr().out
    twice = {name: f"{value} + {value}" for name, value in known_to.notes["features"].items() if name in known}
    twice["transform"] = f"[{trained.transform}, {trained.transform}]"
    twice["weights_sha256"] = f"{trained.weights_sha256} + {'0' * 64}"
    known_to.notes["features"] |= twice
    known_to.save("joined")
    assert main(["search", "joined", "--collection", ".", "a", "--weights", "f.h5"]) == 1
    told = f"f.h5: has the sha256 {sha256_file('f.h5')}, and none of the networks' weights has; expected"
    assert f"{told} {trained.weights_sha256} or 0000" in capsys.readouterr().err
    (folder / "net.safetensors").unlink()
    for one in ([*command, "--picture", "new.png"], of_folder):
        capsys.readouterr()
        assert main(one) == 1
        assert "(net.safetensors): give it as weights" in capsys.readouterr().err


def test_a_split_alone(searcher, capsys):
    assert search("a", "--split", "test", "--json", "--top", "99") == 0
    found = {picture["id"] for picture in json.loads(capsys.readouterr().out)["pictures"]}
    assert found == {picture for picture, split in searcher.catalogue.splits.items() if split == "test"}


def test_a_language_alone(world, tmp_path, capsys):
    table = world.captions()
    spoken = replace(table, languages=["en" if number == 0 else "de" for number in table.captions])
    spoken.ids.extend(np.ones(1, np.int32) for _ in table.texts)
    write_captions(tmp_path / "spoken.parquet", spoken)
    options = ["--captions", str(tmp_path / "spoken.parquet"), "--json", "--language"]
    assert search("a", *options, "de") == 0
    assert {len(picture["captions"]) for picture in json.loads(capsys.readouterr().out)["pictures"]} == {1}
    assert search("--picture", "scene-005.png", "--top", "99", *options, "de") == 0
    found = [caption["text"] for caption in json.loads(capsys.readouterr().out)["captions"]]
    assert sorted(found) == sorted(
        {text for text, code in zip(spoken.texts, spoken.languages, strict=True) if code == "de"}
    )
    assert search("a", *options, "fr") == 1
    assert "no caption is in the language 'fr'; expected de or en" in capsys.readouterr().err
    assert search("a", "--language", "de") == 1
    assert "no caption is in the language 'de'. The captions have no column `language`" in capsys.readouterr().err
    with pytest.raises(SearchError, match="without captions the languages are not known"):
        open_search("models/encoder", Table(world.features, language="de"))


def test_what_is_wrong_is_one_message(world, tmp_path, capsys):
    shutil.copytree("models/encoder", tmp_path / "newer")
    write_json(tmp_path / "newer/encoder.json", {**read_json("models/encoder/encoder.json"), "schema": 6})
    renew(tmp_path / "newer")
    (tmp_path / "text.txt").write_text("no picture")
    for arguments, message in (
        (["models/encoder", ""], "the query is empty"),
        (["models/encoder", "a" * 100_000], "the query has 100,000 characters; expected a sentence of at most 1,000"),
        (["models/encoder", "дом"], "no character of the query is known to this encoder: “д”, “о”, “м”"),
        ([str(tmp_path / "newer"), "a"], f"{tmp_path}/newer/encoder.json: has the format 6"),
        (["./none", "a"], "none: does not exist. `dvc repro` makes models/encoder"),
        (["models/other", "a"], "models/other: does not exist yet. `dvc repro` makes models/encoder"),
        (["flikr8k", "a"], "flikr8k: no such encoder; expected flickr8k, multi30k, the folder of an encoder"),
        (["data", "a"], "data: holds no encoder"),
        (["models/encoder", "--like", "scene-4.png"], "no picture has the id 'scene-4.png'. Did you mean scene-"),
        (["models/encoder", "--collection", "none", "a"], "none: there is no such folder"),
        (
            ["models/encoder", "--collection", "models/encoder/SHA256SUMS", "a"],
            "models/encoder/SHA256SUMS: is not a folder",
        ),
        (
            ["models/encoder", "--serve", "--pictures", str(tmp_path / "text.txt"), "--port", "0"],
            f"{tmp_path}/text.txt: is n",
        ),
        (["models/encoder", "--collection", "models", "a"], "models: holds no picture files"),
        (["models/encoder", "--like", "scene-004.png", "--weights", "no"], "no: there is no such file of weights"),
        (["models/encoder", "a", "--features", "none.h5"], "none.h5: there are no features of pictures to search"),
        (["models/encoder", "a", "--captions", "none.parquet"], "none.parquet: does not exist"),
        (["models/encoder", "--picture", "scene-4.png"], "no picture has the id 'scene-4.png'. Did you mean scene-"),
        (["models/encoder", "--picture", str(tmp_path / "text.txt")], "the picture cannot be used: it begins like no"),
        (["models/encoder", "--serve", "--pictures", "none", "--port", "0"], "none: there is no such folder"),
        (["models/encoder", "--serve", "--host", "none.invalid"], "none.invalid:8377: cannot listen there"),
        (["models/encoder", "--serve", "--host", "192.0.2.1"], "192.0.2.1:8377: cannot listen there"),
    ):
        assert main(["search", *arguments]) == 1, arguments
        error = capsys.readouterr().err.replace("\n", " ")
        assert f"sightword: {message}" in error, (arguments, error)
        assert "Traceback" not in error


def test_an_encoder_before_the_first_run_names_the_run_and_the_packages_encoder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["search", "models/encoder", "x"]) == 1
    assert capsys.readouterr().err == (
        "sightword: models/encoder: does not exist yet. `dvc repro` makes models/encoder; "
        "the name flickr8k stands for an encoder that comes with Sightword.\n"
    )


def test_features_of_another_width_say_which_are_right(world, tmp_path, capsys):
    import numpy as np

    from sightword.features.tables.table import Origin, write_features

    origin = Origin("", "", "", "", "{}", "fp32", "precomputed: mine.npy")
    write_features(tmp_path / "f.h5", ["a"], [""], 3, [(np.arange(1), np.ones((1, 3), np.float32))], origin)
    assert search("a", "--features", str(tmp_path / "f.h5")) == 1
    error = capsys.readouterr().err
    assert (
        "has 3 numbers a picture (precomputed: mine.npy); expected 512, as the encoder was trained with (squ" in error
    )
    write_features(tmp_path / "g.h5", ["a"], [""], 512, [(np.arange(1), np.ones((1, 512), np.float32))], origin)
    assert search("a", "--features", str(tmp_path / "g.h5")) == 0
    assert "The encoder was trained on features of another kind (squeezenet1_1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        *("--top 0 a", "--top 1001 a", "--serve a", "--serve --json", "--serve --port 65536", "--port 80 a"),
        *("--host 0.0.0.0 a", "--picture x a", "--weights x a", "a b", "--max a", "--max a b --min a b"),
        *("--min a b --picture x", "--max a b --serve", "--like x a", "--serve --csv", "--serve --language de"),
        *("--json --csv a", "--collection files --language de a", "--collection files --split test a"),
        *("--collection files --features f.h5 a", "--collection files --picture x"),
    ],
)
def test_options_that_make_no_sense_end_with_2(options):
    with pytest.raises(SystemExit) as stopped:
        search(*options.split())
    assert stopped.value.code == 2


def test_a_folder_of_pictures_is_searched_and_pictures_like_a_picture_are_found(searcher, capsys):
    assert search("--collection", "files", "a red circle", "--json", "--top", "30") == 0
    found = json.loads(capsys.readouterr().out)["pictures"]
    expected = searcher.pictures("a red circle", 30).hits
    assert [picture["id"] for picture in found] == [hit.picture for hit in expected]
    assert [picture["score"] for picture in found] == pytest.approx([hit.score for hit in expected], abs=1e-5)
    assert {(picture["split"], *picture["captions"]) for picture in found} == {(None,)}
    assert search("--like", "scene-004.png", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    alike = searcher.combined([searcher.catalogue.find("scene-004.png")], 10, how="max")
    assert (found["like"], [picture["id"] for picture in found["pictures"]]) == (
        "scene-004.png",
        [hit.picture for hit in alike],
    )


def test_several_queries_are_told_apart_and_nothing_is_cut_in_a_pipe(searcher, capsys, monkeypatch):
    lines = io.TextIOWrapper(io.BytesIO(b"a red circle\n\xff\na blue square\n"))
    monkeypatch.setattr("sys.stdin", lines)
    assert search("--top", "30") == 1
    out = capsys.readouterr().out
    first, second = out.split("\n\n")
    assert first.splitlines()[0] == "a red circle"
    assert second.splitlines()[0] == "a blue square"
    assert len(first.splitlines()) == len(second.splitlines()) == 31
    for hit in searcher.pictures("a red circle", 30).hits:
        caption = shown(searcher.catalogue.captions_of[hit.picture][0])
        split = searcher.catalogue.splits[hit.picture]
        assert re.search(rf"{split} +{re.escape(hit.picture)} +{re.escape(caption)}$", first, re.MULTILINE)


def test_what_is_wrong_with_paths_is_told_before_torch_is_loaded():
    wrong = [
        ["search", "none", "a"],
        ["search", "models/encoder", "a", "--features", "none.h5"],
        ["search", "models/encoder", "--picture", "nope"],
        ["search", "models/encoder", "--collection", "models", "a"],
    ]
    code = f"import sys, pipeline.cli as c; print([c.main(w) for w in {wrong}], 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[1, 1, 1, 1] False\n", done.stderr


@pytest.mark.parametrize("asked", [["--like", "scene-99.png"], ["--max", "a star", "scene-99.png"]])
def test_a_picture_that_a_folder_lacks_is_told_before_any_is_read(asked, monkeypatch, capsys):
    monkeypatch.setattr("sightword.search.collection.PictureFolder.read", None)
    assert search("--collection", "files", *asked) == 1
    assert "no picture has the id 'scene-99.png'. Did you mean" in capsys.readouterr().err
