"""What a searcher says about its features, and the scale of its scores."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from search_world import cosines
from small_encoder import made
from small_ground import TEXTS, encoder

import sightword
from sightword.captions.vocabulary import Normalisation, Vocabulary
from sightword.encoder.by_name import open_with_pictures
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, SearchError
from sightword.features.tables.table import FeatureTable
from sightword.io.files import write_table
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings
from sightword.search.opening import Table, open_search
from sightword.search.query import check_query
from sightword.search.searcher import QUANTILE, Searcher, readable, unrelated

HASH = "0123456789abcdef" * 4


def notes(world, trained: dict[str, object], here: dict[str, object]) -> list[str]:
    table, encoder = world.table(), world.encoder()
    one = replace(encoder, notes={"features": {**table.attributes, **trained}})
    found = Searcher(one, replace(table, attributes={**table.attributes, **here})).notes
    return [note for note in found if "trained on features of" in note]


def test_features_of_other_networks_are_named_without_their_sha256(world):
    attributes = world.table().attributes
    resnet = {"backbone": "resnet152", "weights": "IMAGENET1K_V1", "weights_sha256": HASH}
    precomputed = {"backbone": "", "weights_sha256": "", "transform": "{}"}
    numbers = [{**precomputed, "origin": f"precomputed: {name}.npy (sha256 {HASH})"} for name in "ab"]
    turned = json.dumps({**json.loads(attributes["transform"]), "exif": True})
    other = json.dumps({**json.loads(attributes["transform"]), "crop": 40})
    assert notes(world, {}, {}) == notes(world, {}, {"transform": turned}) == notes(world, numbers[0], numbers[0]) == []
    for trained, here, said in (
        (
            resnet,
            {},
            "(resnet152, weights IMAGENET1K_V1) than these (squeezenet1_1, random weights: for demonstration)",
        ),
        (numbers[0], numbers[1], "(precomputed: a.npy) than these (precomputed: b.npy)"),
        (
            numbers[0],
            {},
            "an unknown network (precomputed: a.npy): scores mean nothing if these (squeezenet1_1, random weights: for",
        ),
        ({}, numbers[0], "another kind (squeezenet1_1, random weights: for demonstration) than these (precomputed"),
        ({"weights_sha256": HASH}, {}, "(squeezenet1_1, random weights: for demonstration, but other weights)"),
        ({}, {"transform": other}, "(squeezenet1_1, random weights: for demonstration, but other crops or normal"),
    ):
        [note] = notes(world, trained, here)
        assert said in note
        assert HASH not in note


@pytest.mark.parametrize("similarity", ["cosine", "order", "reversed_order"])
def test_the_scale_of_scores_ends_at_a_perfect_answer_and_follows_the_score(similarity):
    torch.manual_seed(0)
    model = ModelSettings(embedding=5, hidden=8, attention=4, similarity=similarity)
    vocabulary = Vocabulary.build(["a red circle"])
    encoder = SentenceEncoder(parts_of([Encoders(len(vocabulary), 6, model.shape)], vocabulary, model.shape))
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    ids = [f"{number:02d}" for number in range(40)]
    found = Searcher(encoder, FeatureTable(features, ids, [""] * 40, {})).pictures("a red circle", 40).hits
    shares = [hit.share for hit in found]
    assert shares == sorted(shares, reverse=True)
    assert all(0 <= share <= 1 for share in shares)
    alike = Searcher(encoder, FeatureTable(np.repeat(features, 2, axis=0)[:2], ["a", "b"], ["", ""], {}))
    assert alike.combined([0], 1, how="max")[0].share == pytest.approx(1.0, abs=1e-6)


def test_ensemble_ranks_by_the_product_and_shows_cosines(world, searcher):
    """Vectors of the sum of several networks have lengths of their own, up to their number."""
    assert searcher.encoder.similarity_name == "dot"
    query, images = searcher.encoder.encode("a red circle"), searcher.vectors
    answer = searcher.pictures("a red circle", len(images))
    rows = [hit.row for hit in answer.hits]
    products = images[rows].astype(float) @ query
    np.testing.assert_allclose(products, np.sort(products)[::-1], atol=1e-6)
    assert [hit.score for hit in answer.hits] == pytest.approx(cosines(images[rows], query), abs=1e-6)
    assert [hit.share for hit in answer.hits] == [min(max(hit.score, 0), 1) for hit in answer.hits]
    found = searcher.captions(images[0], 5)
    texts = searcher.encoder.encode([caption.text for caption, _ in found])
    assert [score for _, score in found] == pytest.approx(cosines(texts, images[0]), abs=1e-5)


def test_weak_match_of_an_ensemble_is_told_by_the_product():
    torch.manual_seed(0)
    model = ModelSettings(embedding=5, hidden=8, attention=4)
    vocabulary = Vocabulary.build(unrelated())
    members = [Encoders(len(vocabulary), 6, model.shape).eval() for _ in range(2)]
    encoder = SentenceEncoder(parts_of(members, vocabulary, model.shape))
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    searcher = Searcher(encoder, FeatureTable(features, [f"{number:02d}" for number in range(40)], [""] * 40, {}))
    bound = np.quantile(encoder.similarity(encoder.encode(unrelated()), searcher.vectors).max(axis=1), QUANTILE)
    best = [encoder.similarity(encoder.encode([text]), searcher.vectors).max() for text in unrelated()]
    found = [searcher.pictures(text).weak for text in unrelated()]
    assert found == [score <= bound for score in best]
    assert set(found) == {False, True}


def test_sealed_pictures_and_captions_are_not_searched(world, tmp_path):
    table = pq.read_table(world.folder / "data/captions/captions.parquet")
    splits = ["sealed" if split == "test" else split for split in table["split"].to_pylist()]
    write_table(tmp_path / "captions.parquet", table.set_column(2, "split", pa.array(splits)))
    encoder = str(world.folder / "models/encoder")
    found = open_search(encoder, Table(world.features, tmp_path / "captions.parquet"))
    hidden = {
        picture for picture, split in zip(table["image_id"].to_pylist(), splits, strict=True) if split == "sealed"
    }
    assert {*found.catalogue.pictures} == {*world.table().image_ids} - hidden
    assert not hidden.intersection(picture for caption in found.catalogue.captions for picture in caption.pictures)


def test_a_folder_of_the_home_folder_is_searched_by_one_call(world, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SIGHTWORD_STORE", str(tmp_path / "store"))
    (tmp_path / "photos").mkdir()
    names = [f"scene-00{number}.png" for number in (3, 4, 5)]
    for name in names:
        shutil.copy(world.files / name, tmp_path / "photos")
    photos = sightword.open_search(str(world.folder / "models/encoder"), "~/photos")
    table, ids = world.table(), photos.catalogue.pictures
    assert sorted(ids) == names
    expected = photos.encoder.encode_images(table.features[table.rows(ids)])
    np.testing.assert_allclose(photos.vectors, expected, atol=1e-6)
    hits = photos.pictures("a red circle").hits
    query = photos.encoder.encode("a red circle")
    best = np.argsort(-photos.encoder.similarity(query[None], photos.vectors)[0])
    assert [hit.picture for hit in hits] == [ids[row] for row in best]
    assert [hit.score for hit in hits] == pytest.approx(cosines(photos.vectors[best], query), abs=1e-6)
    photos.vectors[:] = 0
    assert photos.pictures("a red circle").hits == hits


@pytest.mark.parametrize(
    ("captions", "known"),
    [
        (["Zwei große Hunde spielen mit einem Ball im Schnee, und ein Kind fragt warum."], True),
        (["两只狗在雪地里玩耍."], False),
        (["Две собаки бегут по снегу ."], False),
        (["كَلْبانِ يَلْعَبانِ في الثَّلْجِ ."], False),
    ],
)
def test_sentences_of_another_script_are_no_bound(captions, known):
    assert readable(Vocabulary.build(captions, normalise=Normalisation())) is known


NAMES = [f"{number:02d}" for number in range(20)]


def test_a_sentence_finds_the_pictures_with_the_largest_cosine():
    features = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    table = FeatureTable(features, NAMES, [""] * 20, {"backbone": "made_up"})
    found = Searcher(encoder().in_space("visual"), table).pictures(TEXTS[3], top=20)
    vector = encoder().encode(TEXTS[3], space="visual")
    cosines = features @ vector / np.linalg.norm(features, axis=1) / np.linalg.norm(vector)
    assert [hit.row for hit in found.hits] == np.argsort(-cosines).tolist()
    np.testing.assert_allclose([hit.score for hit in found.hits], np.sort(cosines)[::-1], atol=1e-5)


def test_folders_with_and_without_pictures(tmp_path):
    encoder().save(tmp_path / "visual")
    assert open_with_pictures(tmp_path / "visual").default == "visual"
    assert open_with_pictures(f"{tmp_path}/visual:visual").width == 7
    with pytest.raises(EncoderError, match="no embeddings of pictures in the space 'grounded'"):
        open_with_pictures(f"{tmp_path}/visual:grounded")
    made().save(tmp_path / "plain")
    assert open_with_pictures(tmp_path / "plain").default is None
    for space in ("visual", ""):
        with pytest.raises(EncoderError, match=f"plain: has one space only, without a name; not '{space}'"):
            open_with_pictures(f"{tmp_path}/plain:{space}")
    one = encoder()
    SentenceEncoder(one.parts, heads={"sentence": one.heads["sentence"]}, default="sentence").save(tmp_path / "one")
    with pytest.raises(EncoderError, match="one: has no embeddings of pictures; expected an encoder trained on"):
        open_with_pictures(tmp_path / "one")


def test_an_unknown_token_of_the_treebank_is_called_a_word():
    vocabulary = Vocabulary(("dog",), unit="treebank")
    assert check_query("dog cat", vocabulary).note == "The word “cat” is unknown to this encoder."
    with pytest.raises(SearchError, match=r"no word of the query is known .* some of the 1 words"):
        check_query("cat", vocabulary)
