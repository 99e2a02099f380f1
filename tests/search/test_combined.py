"""Several sentences and pictures as one query: `sightword search ENCODER --max a b`."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from search_world import cosines

from pipeline.cli import main
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

PICTURE, OTHER = "scene-004.png", "scene-011.png"

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def order(world, tmp_path, request) -> str:
    """A folder with an encoder that was never trained, for an order or by the cosine."""
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
def test_pictures_are_found_by_a_combination_of_sentences_and_pictures(world, order, how, capsys, tmp_path):
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


def test_products_are_composed_by_sums_and_have_no_abstraction(world, searcher, capsys):
    found, error = answers(capsys, "models/encoder", "--max", "a red circle", "a blue çquare")
    assert "the sum of the embeddings, at length 1, stands for the maximum" in error
    assert (found["unknown"], found["operation"]) == (["ç"], "sum")
    vectors = searcher.encoder.encode(["a red circle", "a blue çquare"])
    query = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).sum(0)
    images = searcher.encoder.encode_images(world.table().features)
    best = np.argsort(-images @ query)[:10]  # this encoder compares by the dot product
    assert [hit["id"] for hit in found["pictures"]] == [world.table().image_ids[row] for row in best]
    assert [hit["score"] for hit in found["pictures"]] == pytest.approx(cosines(images[best], query), abs=1e-5)
    assert main(["search", "models/encoder", "--max", "a red circle", "a blue çquare"]) == 0
    error = capsys.readouterr().err
    assert "the sum of the embeddings, at length 1, stands for the maximum" in error
    assert "The character “ç” is unknown" in error
    assert main(["search", "models/encoder", "--min", "a red circle", "a blue square"]) == 1
    error = capsys.readouterr().err.replace("\n", " ")
    assert "compared by the dot product have no abstraction; expected order-embeddings. Take an encoder" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("things", "message"),
    [
        (["a red circle", ""], "THING 2 ('') is empty"),
        (["a red circle", "дом"], "no character of THING 2 ('дом') is known to this encoder"),
        (["a " * 600, "a"], f"THING 1 ('{'a ' * 29}a…') has 1,199 characters"),
    ],
)
def test_what_is_wrong_with_a_thing_is_one_message(order, things, message, capsys):
    assert main(["search", order, "--max", *things]) == 1
    assert f"sightword: {message}" in capsys.readouterr().err


def test_a_sentence_that_is_too_long_for_a_path_is_a_sentence(order, capsys):
    found, _ = answers(capsys, order, "--max", "a red circle " * 30, "a blue square", "--top", "2")
    assert len(found["pictures"]) == 2
    assert main(["search", order, "--picture", "a red circle " * 30]) == 1
    assert "no picture has the id" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["holiday.jpg", "no/folder/scene.PNG"])
def test_a_missing_picture_is_no_sentence(order, missing, capsys):
    assert main(["search", order, "--max", "a red circle", missing]) == 1
    captured = capsys.readouterr()
    assert f"no picture has the id '{missing}'" in captured.err
    assert not captured.out
