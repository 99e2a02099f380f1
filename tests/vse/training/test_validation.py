"""Recall on dev in training is that of the retrieval protocol, and that of the saved encoder."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword import score
from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders
from sightword.model.similarity import unit
from sightword.vse.training import snapshots
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import DIRECTIONS, validate


class Given:
    """Stands for a network: features and token ids are the embeddings themselves."""

    device, images, captions = torch.device("cpu"), None, None


def split(images, captions, owner):
    return Pairs(
        image_ids=[str(row) for row in range(len(images))],
        features=images,
        texts=[""] * len(captions),
        ids=captions,
        numbers=np.zeros(len(captions), np.int64),
        image_of_caption=owner,
    )


def found_by(monkeypatch, images, captions, owner, similarity):
    monkeypatch.setattr(snapshots, "embed_images", lambda _, rows: rows)
    monkeypatch.setattr(snapshots, "embed_captions", lambda _, rows: rows)
    return validate(Given(), split(images, captions, owner), similarity)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(["cosine", "order", "reversed_order"]), st.integers(1, 40), st.integers(1, 6))
def test_recalls_and_mean_ranks_are_those_of_the_protocol(data, similarity, pictures, width):
    """Few values, so that many rows are equal; any number of captions a picture, in any order; any size of block."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    owner = random.permutation(np.r_[np.arange(pictures), random.integers(0, pictures, data.draw(st.integers(0, 60)))])

    def rows(count):
        values = torch.from_numpy(random.integers(-1, 3, (count, width)).astype(np.float32))
        return unit(values, similarity).numpy()

    images, captions = rows(pictures), rows(len(owner))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "_NUMBERS", data.draw(st.integers(1, 2000)))
        patch.setattr(logging.getLogger("sightword.evaluation.retrieval"), "disabled", True)
        found = found_by(patch, images, captions, owner, similarity)
    expected = score(captions, images, owner, similarity)
    for direction in DIRECTIONS:
        assert found[direction] == {name: expected[direction][name] for name in ("r1", "r5", "r10", "mean_rank")}


def test_embeddings_that_are_not_finite_stop_training(monkeypatch):
    images = np.eye(5, dtype=np.float32)
    images[3, 2] = np.nan
    with pytest.raises(TrainingError, match=r"embeddings of dev are not finite\. Lower train\.rate_max"):
        found_by(monkeypatch, images, np.eye(5, dtype=np.float32), np.arange(5), "cosine")


@pytest.mark.parametrize("change", [{}, {"mask_padding": False}, {"precision": "bf16"}, {"similarity": "order"}])
def test_a_network_has_the_recalls_of_its_saved_encoder(change):
    """Equal captions of other pictures tie, wherever they stand among captions of other lengths."""
    from sightword.captions.vocabulary import Vocabulary
    from sightword.encoder.parts import parts_of
    from sightword.encoder.sentence_encoder import SentenceEncoder

    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abc"), random.integers(1, 9))) for _ in range(400)]
    assert len(set(texts)) < 380
    vocabulary = Vocabulary.build(texts)
    chosen = TrainSettings(embedding=4, hidden=5, attention=4, **change)
    torch.manual_seed(0)
    network = Encoders(len(vocabulary), 6, chosen.shape).train()
    features = random.normal(size=(200, 6)).astype(np.float32)
    dev = Pairs(
        image_ids=[f"{row:03d}" for row in range(200)],
        features=features,
        texts=texts,
        ids=[np.asarray(vocabulary.encode(text), np.int64) for text in texts],
        numbers=np.tile([0, 1], 200),
        image_of_caption=np.repeat(np.arange(200), 2),
    )
    found = validate(network, dev, chosen.similarity)
    assert network.training  # as it was
    encoder = SentenceEncoder(parts_of([network], vocabulary, chosen.shape))
    expected = score(encoder.encode(texts), encoder.encode_images(features), dev.image_of_caption, chosen.similarity)
    for direction in DIRECTIONS:
        assert found[direction] == {name: expected[direction][name] for name in found[direction]}
