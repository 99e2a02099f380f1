from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from sightword.model.similarity import tie_width
from sightword.retrieval import penalty
from sightword.retrieval.inputs import embeddings
from sightword.retrieval.similarities import NAMES, similarity

CPU = torch.device("cpu")


def made(name, images, captions):
    return similarity(name, embeddings(images, "images"), embeddings(captions, "captions"), CPU)


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
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_scores_err_no_more_than_is_said(name, threads, kind):
    random = np.random.default_rng(1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for width in (1, 2, 3, 17, 300, 2048):
            images, captions = (hard(kind, rows, width, random) for rows in (37, 53))
            captions[: len(images)] = images  # errors of 0 too
            alike = made(name, images, captions)
            right = longdoubles(name, images, captions) / alike.unit
            across, down = np.indices(right.shape)
            rough, spare = torch.empty(2, *right.shape)
            alike.rough(alike.rough_captions(slice(0, 53)), alike.rough_images(slice(0, 37)), rough, spare)
            tie = tie_width(width) / 4 * (abs(right) if "order" in name else 1)
            assert (abs(alike.exact(slice(0, 53), slice(0, 37)).numpy() - right) <= tie).all()
            assert (abs(alike.pairs(across.ravel(), down.ravel()).reshape(right.shape) - right) <= tie).all()
            # Whatever the bar is: who reaches it is not below the window, who does not is not above it.
            possible, sure = alike.window(right.astype(np.float64).ravel())
            assert (rough.numpy().ravel() >= possible).all()
            assert (rough.numpy().ravel() <= sure).all()
            assert (alike.ceiling(rough.numpy()) >= right.astype(np.float64)).all()
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", NAMES)
def test_the_window_is_narrow(name):
    random = np.random.default_rng(2)
    images, captions = np.abs(random.standard_normal((2, 10, 1024)))
    alike = made(name, images, captions)
    score = alike.pairs(None, np.arange(10))
    possible, sure = alike.window(score)
    spread = np.abs(longdoubles(name, images, captions)).std()
    spread *= alike._scale**2 if "order" in name else 1 / alike.unit
    assert (sure - possible < 0.02 * spread).all()


def test_products_that_are_coarse_are_noticed(monkeypatch, caplog):
    product = torch.mm
    assert np.isfinite(made("cosine", np.eye(300), np.eye(300)).ceiling(np.float32([0.5]))).all()

    def coarse(first, second, *, out):
        return product(first.bfloat16().float(), second.bfloat16().float(), out=out)

    monkeypatch.setattr(torch, "mm", coarse)
    for width in (1, 300, 20_000):
        with caplog.at_level(logging.INFO):
            alike = made("cosine", np.ones((2, width)), np.ones((2, width)))
        assert np.isinf(alike.ceiling(np.float32([0.5]))).all()
    assert "float32 products are set to be coarse here" in caplog.text


def test_large_work_takes_the_compiled_kernel(monkeypatch):
    asked = []
    monkeypatch.setattr(penalty, "_compiled", lambda device: asked.append(device))
    monkeypatch.setattr(penalty, "_WORTH_COMPILING", 24)
    made("order", np.eye(3), np.eye(2, 3))
    assert asked == []
    made("order", np.eye(3), np.eye(3))
    assert asked == [CPU]
