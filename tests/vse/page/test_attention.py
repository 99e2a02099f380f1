"""What attention weighs, against what the encoder makes of a caption."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from finished_run import write_encoder

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.packing import Packing
from sightword.vse.page.attention import LEVELS, attend, feature_weights
from sightword.vse.selection.ensemble import lexical_part


@pytest.fixture
def encoder(tmp_path) -> SentenceEncoder:
    write_encoder(tmp_path)
    return SentenceEncoder.load(tmp_path, device="cpu")


def test_the_weights_are_those_that_make_the_embedding(encoder) -> None:
    text = "there is one red circle"
    ids = encoder.vocabulary.encode(text)
    vectors = []
    for member in encoder.parts:
        weights = feature_weights(member.captions, ids)
        assert weights.sum(axis=0) == pytest.approx(1, abs=1e-6)
        with torch.no_grad():
            embedded = member.captions.embedding(torch.tensor(ids))
            states = member.captions.recurrent(embedded, Packing.of(torch.tensor([len(ids)]))).double().numpy()
        pooled = (weights * states).sum(axis=0)
        vectors.append(pooled / np.linalg.norm(pooled))
    assert encoder.encode(text) == pytest.approx(np.sum(vectors, axis=0), abs=1e-5)


def test_pieces_join_to_the_caption_and_words_have_their_shares(encoder) -> None:
    (found,) = attend(encoder, ["a  red circle ."]) or []
    assert "".join(text for text, _ in found.pieces) == "a  red circle ."
    assert all(0 <= level <= LEVELS for _, level in found.pieces)
    ids = encoder.vocabulary.encode("a  red circle .")
    weights = np.mean([feature_weights(member.captions, ids).mean(axis=1) for member in encoder.parts], axis=0)
    shares = {"a": weights[0], "red": weights[3:6].sum(), "circle": weights[7:13].sum(), ".": weights[14]}
    best = sorted(shares, key=lambda word: -shares[word])[:3]
    assert [word for word, _ in found.words] == best
    assert [share for _, share in found.words] == [round(100 * float(shares[word])) for word in best]


def test_unknown_characters_and_empty_texts_are_accepted(encoder) -> None:
    unknown, spaces = attend(encoder, ["漢字 \U0001f600", "", "  "]) or []
    assert "".join(text for text, _ in unknown.pieces) == "漢字 \U0001f600"
    assert spaces.words == []


def test_a_lexical_part_has_no_attention_and_leaves_that_of_the_others(encoder) -> None:
    ids = [encoder.vocabulary.encode("a red circle")]
    counted = lexical_part(8, list(map(np.asarray, ids)), encoder.vocabulary, device=torch.device("cpu"))
    both = SentenceEncoder([replace(encoder, renormalise=True), counted], "join", renormalise=True)
    assert attend(both, ["a red circle"]) == attend(encoder, ["a red circle"])
    assert attend(counted, ["a red circle"]) is None


def test_other_poolings_have_no_attention(tmp_path) -> None:
    write_encoder(tmp_path, pooling="mean")
    assert attend(SentenceEncoder.load(tmp_path, device="cpu"), ["a"]) is None
