"""`sightword search` as a person calls it."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from search_world import BACKBONE, SEED, cosines
from sums import renew

from pipeline.cli import main
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.features.networks import find_backbone
from sightword.features.tables.table import Origin, write_features
from sightword.features.weights import Weights
from sightword.io.files import read_json, sha256_file, write_json
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

pytestmark = pytest.mark.usefixtures("here")


def search(*arguments: str) -> int:
    return main(["search", "models/encoder", *arguments])


def test_sentence_prints_the_best_ten_with_scores(searcher, capsys):
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
    capsys.readouterr()
    assert main(["search", "encoder", "--collection", ".", "a red circle"]) == 0
    assert "new.png" in capsys.readouterr().out


def test_split_alone_is_searched(searcher, capsys):
    assert search("a", "--split", "test", "--json", "--top", "99") == 0
    found = {picture["id"] for picture in json.loads(capsys.readouterr().out)["pictures"]}
    assert found == {picture for picture, split in searcher.catalogue.splits.items() if split == "test"}


def test_fault_is_one_message(world, tmp_path, capsys):
    shutil.copytree("models/encoder", tmp_path / "newer")
    write_json(tmp_path / "newer/encoder.json", {**read_json("models/encoder/encoder.json"), "schema": 6})
    renew(tmp_path / "newer")
    text = tmp_path / "text.txt"
    text.write_text("no picture")
    for arguments, message in (
        (["models/encoder", ""], "the query is empty"),
        ([str(tmp_path / "newer"), "a"], f"{tmp_path}/newer/encoder.json: has the format 6"),
        (["models/other", "a"], "models/other: does not exist yet. `dvc repro` makes models/encoder"),
        (["flikr8k", "a"], "flikr8k: no such encoder; expected flickr8k, multi30k, the folder of an encoder"),
        (["models/encoder", "--like", "scene-4.png"], "no picture has the id 'scene-4.png'. Did you mean scene-"),
        (["models/encoder", "--collection", "models", "a"], "models: holds no picture files"),
        (["models/encoder", "a", "--features", "none.h5"], "none.h5: there are no features of pictures to search"),
        (["models/encoder", "--picture", str(text)], f"{text}: the picture cannot be used: it begins like no"),
        (["models/encoder", "--serve", "--host", "none.invalid"], "none.invalid:8377: cannot listen there"),
    ):
        assert main(["search", *arguments]) == 1, arguments
        error = capsys.readouterr().err.replace("\n", " ")
        assert f"sightword: {message}" in error, (arguments, error)
        assert "Traceback" not in error


def test_features_of_another_width_say_which_are_right(world, tmp_path, capsys):
    origin = Origin("", "", "", "", "{}", "fp32", "precomputed: mine.npy")
    write_features(tmp_path / "f.h5", ["a"], [""], 3, [(np.arange(1), np.ones((1, 3), np.float32))], origin)
    assert search("a", "--features", str(tmp_path / "f.h5")) == 1
    error = capsys.readouterr().err
    assert (
        "has 3 numbers a picture (precomputed: mine.npy); expected 512, as the encoder was trained with (squ" in error
    )
    write_features(tmp_path / "g.h5", ["a"], [""], 512, [(np.arange(1), np.ones((1, 512), np.float32))], origin)
    assert search("a", "--features", str(tmp_path / "g.h5")) == 0
    assert "trained on features of another kind (squeezenet1_1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        *("--top 0 a", "--serve a", "--port 80 a", "a b", "--max a", "--collection files --split test a"),
        *("--copy-to new a", "--index-only", "--collection files --index-only a", "--no-browser a"),
        "--collection files --index-only --copy-to new",
    ],
)
def test_options_that_make_no_sense_end_with_2(options):
    with pytest.raises(SystemExit) as stopped:
        search(*options.split())
    assert stopped.value.code == 2


def test_answers_are_copied_into_a_new_folder(world, capsys, tmp_path):
    assert search("--collection", "files", "--index-only") == 0
    assert search("--collection=~nobody-here/x", "a") == 1
    assert "the folder is '~nobody-here/x'; expected the path of a folder" in capsys.readouterr().err
    assert capsys.readouterr().out == ""
    options = ["--collection", "files", "--top", "3", "--copy-to", str(tmp_path / "found"), "--json"]
    assert search(*options, "a red circle") == 0
    hits = json.loads(capsys.readouterr().out)["pictures"]
    copies = sorted((tmp_path / "found").iterdir())
    assert [path.name for path in copies] == [f"00{place} {hit['id']}" for place, hit in enumerate(hits, start=1)]
    assert [path.read_bytes() for path in copies] == [(world.files / hit["id"]).read_bytes() for hit in hits]
    assert search(*options, "a") == 1
    assert "found: holds files already; expected a new or empty folder" in capsys.readouterr().err


def test_folder_and_pictures_like_a_picture_are_searched(searcher, capsys):
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


PICTURE, OTHER = "scene-004.png", "scene-011.png"


@pytest.fixture
def order(world, tmp_path, request) -> str:
    """A folder with an encoder for an order that was never trained."""
    like = world.encoder()
    torch.manual_seed(0)
    model = ModelSettings(
        embedding=5, hidden=8, bidirectional=False, pooling="last", similarity=getattr(request, "param", "order")
    )
    member = Encoders(len(like.vocabulary), like.features_width, model.shape).eval()
    SentenceEncoder(parts_of([member], like.vocabulary, model.shape), notes=like.notes).save(tmp_path / "order")
    return str(tmp_path / "order")


def answers(capsys, *arguments):
    assert main(["search", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


@pytest.mark.parametrize("order", ["order", "reversed_order"], indirect=True)
@pytest.mark.parametrize("how", ["max", "min"])
def test_pictures_are_found_by_a_combination(world, order, how, capsys, tmp_path):
    encoder, table = SentenceEncoder.load(order), world.table()
    images = encoder.encode_images(table.features).astype(float)
    shutil.copy(world.files / OTHER, tmp_path / "copy.png")
    operands = [
        images[table.image_ids.index(PICTURE)],
        encoder.encode("a red circle"),
        images[table.image_ids.index(OTHER)],
    ]
    sign, largest = (1, how == "max") if encoder.similarity_name == "order" else (-1, how == "min")
    query = np.max(operands, axis=0) if largest else np.min(operands, axis=0)
    scores = -(np.maximum(sign * (query - images), 0) ** 2).sum(1)
    expected = [row for row in np.argsort(-scores, kind="stable") if table.image_ids[row] not in (PICTURE, OTHER)][:4]

    found, _ = answers(capsys, order, f"--{how}", PICTURE, "a red circle", str(tmp_path / "copy.png"), "--top", "4")
    assert found[how] == [PICTURE, "a red circle", str(tmp_path / "copy.png")]
    assert found["operation"] == ("maximum" if (how == "max") == (sign > 0) else "minimum")
    assert [hit["id"] for hit in found["pictures"]] == [table.image_ids[row] for row in expected]
    assert [hit["score"] for hit in found["pictures"]] == pytest.approx(scores[expected].tolist(), rel=1e-5)
    assert main(["search", order, f"--{how}", PICTURE, "a red circle", OTHER, "--top", "4"]) == 0
    captured = capsys.readouterr()
    for line, row in zip(captured.out.splitlines(), expected, strict=True):
        assert f"  {table.image_ids[row]}  " in line
    assert ("The order of this encoder is reversed" in captured.err) == (sign < 0)


def test_products_compose_by_sums_and_have_no_abstraction(world, searcher, capsys):
    found, error = answers(capsys, "models/encoder", "--max", "a red circle", "a blue çquare")
    assert "the sum of the embeddings, at length 1, stands for the maximum" in error
    assert (found["unknown"], found["operation"]) == (["ç"], "sum")
    vectors = searcher.encoder.encode(["a red circle", "a blue çquare"])
    query = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).sum(0)
    images = searcher.encoder.encode_images(world.table().features)
    best = np.argsort(-images @ query)[:10]  # this encoder compares by the dot product
    assert [hit["id"] for hit in found["pictures"]] == [world.table().image_ids[row] for row in best]
    assert [hit["score"] for hit in found["pictures"]] == pytest.approx(cosines(images[best], query), abs=1e-5)
    assert main(["search", "models/encoder", "--min", "a red circle", "a blue square"]) == 1
    error = capsys.readouterr().err.replace("\n", " ")
    assert "compared by the dot product have no abstraction; expected order-embeddings. Take an encoder" in error
    assert "Traceback" not in error


def test_fault_of_a_thing_is_one_message(order, capsys):
    assert main(["search", order, "--max", "a red circle", "дом"]) == 1
    assert "sightword: no character of THING 2 ('дом') is known to this encoder" in capsys.readouterr().err


def test_long_sentence_is_no_path_and_missing_picture_no_sentence(order, capsys):
    found, _ = answers(capsys, order, "--max", "a red circle " * 30, "a blue square", "--top", "2")
    assert len(found["pictures"]) == 2
    assert main(["search", order, "--max", "a red circle", "no/folder/scene.PNG"]) == 1
    captured = capsys.readouterr()
    assert "no picture has the id 'no/folder/scene.PNG'" in captured.err
    assert not captured.out
