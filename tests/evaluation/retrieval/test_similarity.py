from __future__ import annotations

import numpy as np
import pytest
import torch

from sightword.compute.devices import threads
from sightword.evaluation.retrieval.ranks import tiles
from sightword.evaluation.retrieval.similarity import NAMES, embeddings, similarity
from sightword.model.similarity import tie_width

CPU = torch.device("cpu")


def made(name, images, captions):
    return similarity(name, embeddings(captions, "captions"), embeddings(images, "images"), CPU)


def hard(kind, rows, width, random):
    if kind == "normal":
        return random.standard_normal((rows, width))
    if kind == "alike":  # nothing cancels: sums and their rounding grow
        return 1 + 1e-3 * random.random((rows, width))
    if kind == "steady":  # each sum rounds the same way time and again
        return np.ones((1, width)) * np.where(random.random((rows, 1)) < 0.5, 1, 1e-4) * random.random((rows, 1))
    return np.exp(12 * random.standard_normal((rows, width)))  # a few numbers dwarf the others


def longdoubles(name, images, captions):
    images, captions = images.astype(np.longdouble), captions.astype(np.longdouble)
    if name == "cosine":
        images, captions = (rows / np.sqrt((rows**2).sum(1, keepdims=True)) for rows in (images, captions))
    if name in ("cosine", "dot"):
        return captions @ images.T
    excess = captions[:, None] - images
    return -(np.maximum(-excess if name == "reversed_order" else excess, 0) ** 2).sum(-1)


@pytest.mark.parametrize("kind", ["normal", "alike", "steady", "spread"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_scores_err_no_more_than_is_said(name, count, kind):
    random = np.random.default_rng(1)
    with threads(count):
        for width in (1, 2, 3, 17, 300, 2048):
            images, captions = (hard(kind, rows, width, random) for rows in (37, 53))
            captions[: len(images)] = images  # errors of 0 too
            alike = made(name, images, captions)
            right = longdoubles(name, images, captions) / alike.unit
            found = torch.empty(right.shape, dtype=torch.float64)
            alike.scores(alike.captions(slice(0, 53)), alike.images(slice(0, 37)), found)
            tie = tie_width(width) / 4 * (abs(right) if "order" in name else 1)
            assert (abs(found.numpy() - right) <= tie).all()
            owner = random.integers(0, 37, 53)
            limits = np.broadcast_to(tie, right.shape)[np.arange(53), owner]
            assert (abs(alike.own(owner) - right[np.arange(53), owner]) <= limits).all()


@pytest.mark.parametrize(("captions", "images"), [(2, 333), (300, 100)])
def test_scores_by_any_number_of_threads_have_equal_bytes(captions, images):
    random = np.random.default_rng(2)
    alike = made("cosine", random.standard_normal((images, 2048)), random.standard_normal((captions, 2048)))
    found = set()
    for count in (1, 2, 3, 4):
        with threads(count):
            found.add(b"".join(scores.numpy().tobytes() for _, _, scores in tiles(alike, progress=False)))
    assert len(found) == 1
