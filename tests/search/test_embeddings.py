"""Embeddings are computed once, found again by another searcher, and never taken for another encoder's."""

from __future__ import annotations

import logging
import shutil

import numpy as np
import pytest

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.search.catalogue import Caption
from sightword.search.embeddings import KeptEmbeddings, caption_key, kind_of
from sightword.search.searcher import PictureHit, Searcher, unrelated
from sightword.storage.store import Store


@pytest.fixture
def encoded(monkeypatch) -> list[int]:
    """The numbers of captions, and minus the numbers of pictures, that were embedded."""
    counts: list[int] = []
    encode, encode_images = SentenceEncoder.encode, SentenceEncoder.encode_images

    def counting(self, sentences, **options):
        counts.append(len(sentences))
        return encode(self, sentences, **options)

    def counting_images(self, features, **options):
        counts.append(-len(features))
        return encode_images(self, features, **options)

    monkeypatch.setattr(SentenceEncoder, "encode", counting)
    monkeypatch.setattr(SentenceEncoder, "encode_images", counting_images)
    return counts


def kept_in(folder, world) -> KeptEmbeddings:
    return KeptEmbeddings(Store(folder), kind_of(world.folder / "models/encoder", "cpu"))


def begun(world, folder, split: str | None = None) -> Searcher:
    found = Searcher(world.encoder(), world.table(), world.captions(), split=split, kept=kept_in(folder, world))
    found.read_captions()
    return found


def answers(searcher: Searcher) -> tuple[list[PictureHit], list[tuple[Caption, float]]]:
    row = searcher.catalogue.find("scene-004.png")
    return searcher.pictures("a red circle", 9).hits, searcher.captions(searcher.embedding(row), 9)


def test_a_second_start_computes_nothing_and_answers_the_same(world, searcher, tmp_path, encoded):
    first = answers(begun(world, tmp_path))
    assert sum(encoded) == 25 - 30 + len("a red circle") + len(unrelated())
    encoded.clear()
    again = begun(world, tmp_path)
    assert encoded == []
    assert answers(again) == first == answers(searcher)
    encoded.clear()
    begun(world, tmp_path, "test")  # other pictures and captions in another order, of the same encoder
    assert encoded == []


def test_only_new_pictures_are_computed_and_the_others_keep_their_bits(world, searcher, tmp_path, encoded):
    earlier = begun(world, tmp_path, "test")
    encoded.clear()
    found = answers(begun(world, tmp_path))
    assert encoded[0] == len(earlier.catalogue.pictures) - 30
    assert answers(begun(world, tmp_path)) == found
    (pictures, captions), (others, texts) = found, answers(searcher)  # at once: other rows may give other last bits
    assert [hit.picture for hit in pictures] == [hit.picture for hit in others]
    np.testing.assert_allclose([hit.score for hit in pictures], [hit.score for hit in others], atol=1e-6)
    assert [caption for caption, _ in captions] == [caption for caption, _ in texts]
    np.testing.assert_allclose([score for _, score in captions], [score for _, score in texts], atol=1e-6)


def test_what_was_computed_before_an_end_or_an_error_is_kept(world, tmp_path, encoded, monkeypatch):
    monkeypatch.setattr("sightword.search.searcher._AT_ONCE", 10)
    searcher = Searcher(world.encoder(), world.table(), world.captions(), kept=kept_in(tmp_path, world))
    encode = SentenceEncoder.encode

    def failing(self, sentences, **options):
        if len(encoded) == 3:
            raise RuntimeError("no luck")
        return encode(self, sentences, **options)

    monkeypatch.setattr(SentenceEncoder, "encode", failing)
    with pytest.raises(RuntimeError):
        searcher.read_captions()
    assert encoded == [-30, 10, 10]
    monkeypatch.setattr(SentenceEncoder, "encode", encode)
    encoded.clear()
    begun(world, tmp_path)
    assert encoded == [5]


def test_another_encoder_has_other_embeddings(world, tmp_path, encoded):
    begun(world, tmp_path / "store")
    shutil.copytree(world.folder / "models/encoder", tmp_path / "encoder")
    sums = tmp_path / "encoder/SHA256SUMS"
    sums.write_text(sums.read_text().replace("a", "b"))
    other = KeptEmbeddings(Store(tmp_path / "store"), kind_of(tmp_path / "encoder", "cpu"))
    assert not other.read([caption_key(one.text) for one in begun(world, tmp_path / "store").catalogue.captions], 16)[
        1
    ].any()
    same = kept_in(tmp_path / "store", world)
    assert same.read([caption_key("there is one circle in red .")], world.encoder().width)[1].any()
    cuda = KeptEmbeddings(Store(tmp_path / "store"), kind_of(world.folder / "models/encoder", "cuda"))
    assert not cuda.read([caption_key("there is one circle in red .")], 16)[1].any()


def test_a_damaged_file_is_reported_and_made_again(world, tmp_path, encoded, caplog):
    first = answers(begun(world, tmp_path))
    for path in (tmp_path / "features").rglob("*.parquet"):
        path.chmod(0o644)
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
    encoded.clear()
    assert answers(begun(world, tmp_path)) == first
    assert any(encoded)
    assert "cannot be used and are ignored" in caplog.text
    encoded.clear()
    begun(world, tmp_path)
    assert encoded == []


def test_a_store_that_cannot_be_written_costs_time_only(world, searcher, tmp_path, caplog):
    (tmp_path / "store").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        assert answers(begun(world, tmp_path / "store")) == answers(searcher)
    assert caplog.text.count("Embeddings are not kept") == 1
