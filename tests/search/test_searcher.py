"""What a searcher says, the scale of its scores, and the ids, splits and captions that it searches."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from search_world import cosines
from small_encoder import made
from small_ground import TEXTS, encoder

import sightword
from sightword.captions.table import CaptionTable
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.by_name import open_with_pictures
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, SearchError
from sightword.features.tables.table import FeatureTable
from sightword.io.files import write_table
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings
from sightword.search.catalogue import Caption, build
from sightword.search.opening import Table, _weights_files, open_search
from sightword.search.searcher import QUANTILE, KeptCaptions, PictureHit, Searcher, unrelated
from sightword.storage.store import Store
from tools import search_strip

NAMES = [f"{number:02d}" for number in range(20)]


@pytest.mark.parametrize("similarity", ["cosine", "order", "reversed_order"])
def test_shares_follow_scores_up_to_a_perfect_answer(similarity):
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


def test_odd_arguments_of_a_search_are_one_message(searcher):
    for top in (None, -1, True, 2.5, "3"):
        with pytest.raises(SearchError, match=r"top is .*; expected a whole number from 0"):
            searcher.pictures("a red circle", top)
    for operands, how in (
        ([], "max"),
        ([0, 1], "mean"),
        ([-1], "max"),
        ([10**9], "max"),
        ([None], "max"),
        ([""], "max"),
    ):
        with pytest.raises((SearchError, EncoderError), match=r"operands|has the row|features are|is empty"):
            searcher.combined(operands, 2, how=how)
    assert searcher.combined(["a dog"], 2, how="max") == searcher.pictures("a dog", 2).hits
    assert searcher.combined([np.int64(0)], 2, how="max") == searcher.combined([0], 2, how="max")


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

    def search(texts: list[str]) -> Searcher:
        vocabulary = Vocabulary.build(texts)
        members = [Encoders(len(vocabulary), 6, model.shape).eval() for _ in range(2)]
        encoder = SentenceEncoder(parts_of(members, vocabulary, model.shape))
        features = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
        return Searcher(encoder, FeatureTable(features, NAMES, [""] * 20, {}))

    searcher, texts = search(unrelated()), unrelated()
    best = searcher.encoder.similarity(searcher.encoder.encode(texts), searcher.vectors).max(axis=1)
    bound = np.quantile(best, QUANTILE)
    best = [searcher.encoder.similarity(searcher.encoder.encode([text]), searcher.vectors).max() for text in texts]
    found = [searcher.pictures(text).weak for text in texts]
    assert found == [score <= bound for score in best]
    assert set(found) == {False, True}
    assert not search(["两只狗在雪地里玩耍"]).pictures("两只狗").weak  # sentences of another script are no bound


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


def test_weights_that_notes_name_lie_in_their_folder(tmp_path):
    (tmp_path / "own.pth").touch()
    (tmp_path / "in").mkdir()
    parts = [{"weights": name} for name in ("own.pth", "./own.pth", "../own.pth", "a" * 5000 + ".pth", "a\0.pth")]
    assert _weights_files(parts, None, tmp_path) == [*[tmp_path / "own.pth"] * 2, None, None, None]
    assert _weights_files(parts, None, tmp_path / "in") == [None] * 5


def test_folder_of_the_home_folder_is_searched_by_one_call(world, tmp_path, monkeypatch):
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


def test_sentence_finds_pictures_with_the_largest_cosine():
    features = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    table = FeatureTable(features, NAMES, [""] * 20, {"backbone": "made_up"})
    found = Searcher(encoder().in_space("visual"), table).pictures(TEXTS[3], top=20)
    vector = encoder().encode(TEXTS[3], space="visual")
    cosines = features @ vector / np.linalg.norm(features, axis=1) / np.linalg.norm(vector)
    assert [hit.row for hit in found.hits] == np.argsort(-cosines).tolist()
    np.testing.assert_allclose([hit.score for hit in found.hits], np.sort(cosines)[::-1], atol=1e-5)


def test_encoders_with_and_without_pictures_are_told_apart(tmp_path):
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


PHOTOGRAPHS = Path(__file__).parents[2] / "docs/images/photographs"


@pytest.fixture(scope="module", params=search_strip.SENTENCES)
def photographs(request) -> tuple[str, Searcher]:
    return request.param, sightword.open_search(request.param, PHOTOGRAPHS)


def test_strip_in_git_counts_what_the_encoder_finds(photographs):
    name, searcher = photographs
    told = search_strip.tally(searcher, search_strip.SENTENCES[name])
    assert told in search_strip.STRIPS[name].read_text(), "run `python -m tools.search_strip`"
    assert not any(searcher.pictures(query, 1).weak for query in list(search_strip.SENTENCES[name])[:2])


def test_most_sentences_that_no_photograph_shows_are_weak(photographs):
    name, searcher = photographs
    queries = ["The stock market fell on Monday .", "Your password must have eight letters ."]
    queries += ["Der Aktienmarkt fiel am Montag."] * (name == "multi30k")
    assert sum(searcher.pictures(query, 1).weak for query in queries) > len(queries) / 2


@pytest.fixture
def encoded(monkeypatch) -> list[int]:
    """The numbers of captions that were embedded together."""
    counts: list[int] = []
    encode = SentenceEncoder.encode

    def counting(self, sentences, **options):
        counts.append(len(sentences))
        return encode(self, sentences, **options)

    monkeypatch.setattr(SentenceEncoder, "encode", counting)
    return counts


def kept_in(folder, world) -> KeptCaptions:
    return KeptCaptions(Store(folder), world.folder / "models/encoder", "cpu")


def begun(world, folder, split: str | None = None) -> Searcher:
    found = Searcher(world.encoder(), world.table(), world.captions(), split=split, kept=kept_in(folder, world))
    found.read_captions()
    return found


def answers(searcher: Searcher) -> tuple[list[PictureHit], list[tuple[Caption, float]]]:
    row = searcher.catalogue.find("scene-004.png")
    return searcher.pictures("a red circle", 9).hits, searcher.captions(searcher.embedding(row), 9)


def test_second_start_embeds_no_caption_and_answers_the_same(world, searcher, tmp_path, encoded):
    first = answers(begun(world, tmp_path))
    assert sum(encoded) == 25 + len("a red circle") + len(unrelated())
    encoded.clear()
    again = begun(world, tmp_path)
    assert encoded == []
    assert answers(again) == first == answers(searcher)
    encoded.clear()
    begun(world, tmp_path, "test")  # other captions in another order, of the same encoder
    assert encoded == []


def test_another_encoder_or_device_has_other_embeddings(world, tmp_path):
    texts = [one.text for one in begun(world, tmp_path / "store").catalogue.captions]
    shutil.copytree(world.folder / "models/encoder", tmp_path / "encoder")
    sums = tmp_path / "encoder/SHA256SUMS"
    sums.write_text(sums.read_text().replace("a", "b"))
    width, store = world.encoder().width, Store(tmp_path / "store")
    assert kept_in(tmp_path / "store", world).read(texts, width)[1].all()
    assert not KeptCaptions(store, tmp_path / "encoder", "cpu").read(texts, width)[1].any()
    assert not KeptCaptions(store, world.folder / "models/encoder", "cuda").read(texts, width)[1].any()


def test_unwritable_store_costs_time_only(world, searcher, tmp_path, caplog):
    (tmp_path / "store").write_text("a file where the folder should be")
    assert answers(begun(world, tmp_path / "store")) == answers(searcher)
    assert caplog.text.count("Embeddings are not kept") == 1


TABLE = CaptionTable(
    ["a.jpg", "a.jpg", "b.jpg", "c.jpg", "gone.jpg"],
    [0, 1, 0, 0, 0],
    ["train", "train", "test", "dev", "test"],
    ["a dog", "a cat", "a dog", "a cow", "lost"],
    [],
)
PICTURES = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]


def test_text_shared_by_pictures_is_listed_once_test_first():
    assert build(PICTURES, None).pictures == PICTURES
    found = build(PICTURES, TABLE)
    assert [(caption.text, caption.pictures) for caption in found.captions] == [
        ("a dog", ("b.jpg", "a.jpg")),
        ("a cow", ("c.jpg",)),
        ("a cat", ("a.jpg",)),
    ]
    assert found.captions_of["a.jpg"] == ["a dog", "a cat"]
    assert (found.rows.get("c.jpg"), found.rows.get("gone.jpg")) == (2, None)


def test_unicode_forms_of_a_text_are_one_caption():
    found = build(PICTURES, replace(TABLE, texts=["caf\u00e9", "a cat", "cafe\u0301", "a cow", "lost"]))
    assert [caption.pictures for caption in found.captions] == [("b.jpg", "a.jpg"), ("c.jpg",), ("a.jpg",)]


def test_split_has_its_own_pictures_and_captions():
    found = build(PICTURES, TABLE, "dev")
    assert (found.pictures, [caption.text for caption in found.captions]) == (["c.jpg"], ["a cow"])
    with pytest.raises(SearchError, match=r"no picture of the split 'dev' has features; expected train or test"):
        build(["a.jpg"], TABLE.rows([0, 1, 2]), "dev")


def test_unknown_id_names_near_ids_quickly():
    names = [f"{number:012d}_abcdef.jpg" for number in range(30_000)]
    found = build(names, None)
    with pytest.raises(SearchError, match=r"'000000012345_abcdef'. Did you mean 000000012345_abcdef.jpg or"):
        found.find("000000012345_abcdef")
    with pytest.raises(SearchError, match=r"no picture has the id '–'$"):
        found.find("–")
