from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from pipeline.retrieval import order
from pipeline.retrieval.order import compiled, errors, plain
from pipeline.retrieval.ranks import rank
from pipeline.retrieval.similarity import tie_width

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _forget():
    order._compiled.cache_clear()
    yield
    order._compiled.cache_clear()


@pytest.mark.slow
def test_the_compiled_kernel_agrees_with_plain_operations_on_any_shape(caplog):
    with caplog.at_level(logging.DEBUG, logger=order.__name__):
        fused = compiled(1e12, CPU)
    if fused is None:
        pytest.skip(f"no kernel can be compiled here: {caplog.text}")
    assert "by a compiled kernel" in caplog.text
    random = np.random.default_rng(0)
    with torch.inference_mode(), torch._dynamo.config.patch(error_on_recompile=True):  # one kernel does for all
        for n, m, width in ((1, 1, 1), (513, 600, 17), (100, 1030, 64)):
            captions, images = (torch.from_numpy(random.standard_normal((rows, width))) for rows in (n, m))
            expected = torch.relu(captions[:, None] - images).square().sum(-1)
            for kernel in (fused, None):
                found = errors(captions, images, kernel)
                assert found.shape == (n, m)
                assert ((found - expected).abs() <= tie_width(width) / 4 * expected).all()


@pytest.mark.parametrize("error", [RuntimeError("no compiler"), FileNotFoundError("g++")])
def test_without_a_compiler_plain_operations_give_the_same_ranks(monkeypatch, caplog, error):
    def no_compiler(*_, **__):
        raise error

    random = np.random.default_rng(1)
    images, captions = random.random((20, 6)), random.random((40, 6))
    expected = rank(images, captions, np.tile(np.arange(20), 2), "order")
    monkeypatch.setattr(order, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(torch, "compile", lambda *_, **__: no_compiler)
    with caplog.at_level(logging.DEBUG, logger=order.__name__):
        found = rank(images, captions, np.tile(np.arange(20), 2), "order")
    assert f"no kernel could be compiled ({error})" in caplog.text
    np.testing.assert_array_equal(found.caption_to_image, expected.caption_to_image)
    np.testing.assert_array_equal(found.image_to_caption, expected.image_to_caption)


def test_little_work_compiles_nothing(monkeypatch, caplog):
    monkeypatch.setattr(torch, "compile", None)
    with caplog.at_level(logging.DEBUG, logger=order.__name__):
        assert compiled(1e6, CPU) is None
    assert "too little work" in caplog.text


def test_a_pairs_error_does_not_depend_on_its_tile(monkeypatch):
    random = np.random.default_rng(3)
    captions, images = (torch.from_numpy(random.standard_normal((70, 9))) for _ in range(2))
    whole = errors(captions, images, None)
    monkeypatch.setattr(order, "_PLAIN_TILE", 13)
    assert torch.equal(errors(captions, images, None), whole)
    assert plain(torch.zeros(70, 70, dtype=torch.float64), captions, images.T).equal(whole)
